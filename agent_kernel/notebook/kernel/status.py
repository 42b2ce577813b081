"""What the kernel publishes of its state on our account: nothing of the server's requests, and of a call that it takes
its time.

ipykernel publishes for each message that it is busy and then idle again. Both go to every page, where they cost more
than a short call does; and the idle after a request makes pages take a kernel whose main thread runs a cell for idle.
`_publish_status` is undocumented: it is used only here. Where it is missing, everything is published.
"""

import _thread
import threading
import time
from collections.abc import Callable
from typing import Any

from agent_kernel.protocol.kernel_code import takes_call
from agent_kernel.protocol.kernel_topics import REQUEST_TYPE

SHORT_SECONDS = 0.05
"""A call that has not ended by then makes the kernel busy, at the latest as long again afterwards."""

Message = dict[str, Any]


def publish_less(kernel: Any) -> None:
    publish = getattr(kernel, "_publish_status", None)
    if publish is not None:
        kernel._publish_status = _Status(kernel, publish).publish


class _Status:
    """In place of the kernel's own method."""

    def __init__(self, kernel: Any, publish: Callable[[str, str, Message], None]) -> None:
        self._kernel = kernel
        self._publish = publish
        self._short = _ShortCalls(publish)

    def publish(self, status: str, channel: str, parent: Message | None = None) -> None:
        message = parent or self._kernel.get_parent(channel)
        kind = message.get("header", {}).get("msg_type")
        if channel == "control" and kind == REQUEST_TYPE:
            return
        code = message.get("content", {}).get("code")
        if channel == "shell" and (kind == REQUEST_TYPE or (kind == "execute_request" and takes_call(code))):
            if status == "busy":
                self._short.begin(message)
                return
            if status == "idle" and not self._short.end():
                return
        self._publish(status, channel, message)


class _ShortCalls:
    """Says that the kernel is busy with a call that turns out not to be short. One call runs at a time."""

    def __init__(self, publish: Callable[[str, str, Message], None]) -> None:
        self._publish = publish
        self._lock = threading.Lock()
        self._request: Message = {}
        self._began = 0.0
        self._runs = self._told = False
        self._is_watched = False

    def begin(self, request: Message) -> None:
        with self._lock:
            self._request, self._began = request, time.monotonic()
            self._runs, self._told = True, False
            if not self._is_watched:
                self._is_watched = True
                # Not `Thread.start`, which waits until the new thread has had the interpreter.
                _thread.start_new_thread(self._watch, ())

    def end(self) -> bool:
        """The call has ended. Whether it made the kernel busy."""
        with self._lock:
            self._runs = False
            return self._told

    def _watch(self) -> None:
        """One look at all calls of this while: to wake a thread for each would cost as much as is saved."""
        while True:
            time.sleep(SHORT_SECONDS)
            with self._lock:
                if self._runs and time.monotonic() - self._began >= SHORT_SECONDS:
                    self._told = True
                    self._publish("busy", "shell", self._request)
                if self._told or not self._runs:
                    self._is_watched = False
                    return
