"""Lets a kernel with ipykernel 6 answer its pages while its main thread waits for a run.

In ipykernel 6 cells and widget messages arrive on one channel, which the main thread reads between cells. So a waiting
main thread reads it itself: messages for widgets are answered at once; all others go back into the kernel's own queue,
in their order, and the kernel runs or aborts them when the cell has ended. The idea is that of jupyter_ui_poll
(https://github.com/Kirill888/jupyter-ui-poll). That library is not used: it answers in another thread, can't be nested,
and runs the cells that arrived meanwhile itself, also those that the kernel would abort.

From ipykernel 7 on a page has a thread of its own (a subshell), and nothing of this is needed.

`msg_queue`, `_parent_ident` and `_publish_status` are undocumented: they are used only here, and tested with the
versions of ipykernel that have them.
"""

import contextlib
import inspect
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import zmq
from IPython.core.interactiveshell import InteractiveShell

from agent_kernel.notebook.execution.interrupts import InterruptGate
from agent_kernel.notebook.kernel.cell_requests import CellRequest, read_frames
from agent_kernel.notebook.kernel.environment import kernel_of
from agent_kernel.notebook.kernel.self_client import SelfClient

POLL_SECONDS = 0.03
"""How long a click may lie unread while the main thread's event loop waits. A blocked thread polls the channel."""

AWAKE_SECONDS = 0.5
"""ipykernel cancels an interrupted `await` when its event loop wakes next, and does not wake it."""

LONGEST_SECONDS = 0.5
"""On Windows an interrupt is seen only between two polls of a socket."""

ANSWERED_AT_ONCE = frozenset({"comm_open", "comm_msg", "comm_close", "comm_info_request", "kernel_info_request"})
"""Messages to widgets, and requests that a page makes before it shows one. They need no order relative to cells."""


class Event(Protocol):
    """The part of `threading.Event` that a wait uses. `set` may be called in any thread."""

    def set(self) -> None: ...

    def clear(self) -> None: ...

    def wait(self, timeout: float | None) -> object:
        """Sleep until the event is set, for `timeout` seconds at most. It may return earlier."""
        ...


class ShellPolling:
    """One per kernel process."""

    def __init__(self, shell: InteractiveShell, on_request: Callable[[CellRequest], None]) -> None:
        """`on_request` is called for each request to run a cell that is found in the queue."""
        self._kernel = kernel_of(shell)
        features = getattr(self._kernel, "kernel_info", {}).get("supported_features", [])
        self._needed = self._kernel is not None and "kernel subshells" not in features
        self._on_request = on_request
        self._waits = 0
        self._last_seen = -1
        """The number of the last queued message that was examined."""
        self._watchers: list[Callable[[], None]] = []

    @property
    def answers_pages(self) -> bool:
        """Whether messages of pages are read now, even if a cell is running (but not while a call runs)."""
        return not self._needed or self._waits > 0

    def watch(self, watcher: Callable[[], None]) -> None:
        """Have `watcher` called on the main thread whenever `answers_pages` may have changed."""
        self._watchers.append(watcher)

    @contextlib.contextmanager
    def waiting(self) -> Iterator["Polling"]:
        """Mark this thread as waiting for a run. May be nested, and entered by several tasks at once."""
        if not self._needed or threading.current_thread() is not threading.main_thread():
            yield Polling(None)
            return
        self._waits += 1
        try:
            self._notify()
            yield Polling(self)
        finally:
            self._waits -= 1
            self._notify()

    async def catch_up(self, client: SelfClient | None) -> None:
        """Wait until the messages that pages have sent by now have been read."""
        if self._needed and client is not None:
            await client.round_trip()

    def _notify(self) -> None:
        for watcher in self._watchers:
            watcher()

    @property
    def channel(self) -> zmq.Socket[Any]:
        channel: zmq.Socket[Any] = self._kernel.shell_stream.socket  # type: ignore[union-attr]
        return channel

    def poll(self) -> None:
        """Answer the messages to widgets that have arrived. An interrupt ends the widget's code, and then the wait."""
        with (gate := InterruptGate()).installed():
            while not gate.interrupted and (message := self._take()) is not None:
                self._answer(message, gate)
        gate.pass_on()

    def _take(self) -> list[Any] | None:
        """The first message that can be answered now. The others stay in the queue, in their order."""
        kernel: Any = self._kernel
        kernel.shell_stream.flush()  # moves what has arrived on the channel into the queue
        found: list[Any] | None = None
        for _ in range(kernel.msg_queue.qsize()):
            number, dispatch, arguments = item = kernel.msg_queue.get_nowait()
            if found is None and number > self._last_seen:
                self._last_seen = number
                kind = self._kind_of(arguments[0]) if dispatch == kernel.dispatch_shell else None
                if kind in ANSWERED_AT_ONCE:
                    found = arguments[0]
                    continue
                if kind == "execute_request" and (request := read_frames(kernel.session, arguments[0])) is not None:
                    self._on_request(request)
            kernel.msg_queue.put_nowait(item)
        return found

    def _kind_of(self, message: list[Any]) -> Any:
        session = self._kernel.session  # type: ignore[union-attr]
        try:
            _, parts = session.feed_identities(message, copy=False)
            return session.unpack(parts[1].bytes).get("msg_type")
        except (ValueError, LookupError, AttributeError):
            return None  # the kernel reports what is wrong with it

    def _answer(self, message: list[Any], gate: InterruptGate) -> None:
        """As the kernel's own dispatch, which would swallow interrupts; afterwards output belongs to the cell again."""
        kernel: Any = self._kernel
        identities, parts = kernel.session.feed_identities(message, copy=False)
        try:
            request = kernel.session.deserialize(parts, content=True, copy=False)
        except (ValueError, TypeError):
            kernel.log.error("Invalid Message", exc_info=True)
            return
        cell = kernel._parent_ident["shell"], kernel.get_parent("shell")
        kernel.set_parent(identities, request, channel="shell")
        try:
            kernel._publish_status("busy", "shell")
            self._handle(identities, request, gate)
            sys.stdout.flush()
            sys.stderr.flush()
            kernel._publish_status("idle", "shell")
        finally:
            kernel.set_parent(*cell, channel="shell")
        kernel.shell_stream.flush()  # a reply does not wait for the event loop

    def _handle(self, identities: list[bytes], request: dict[str, Any], gate: InterruptGate) -> None:
        from agent_kernel.notebook.execution.executor import drive
        from agent_kernel.notebook.execution.redirect import own_figures

        kernel: Any = self._kernel
        handler = kernel.shell_handlers[request["header"]["msg_type"]]
        # An interrupt that came since the message was taken from the queue must not cost the message.
        opened = contextlib.nullcontext() if gate.interrupted else gate.open()
        try:
            with own_figures(), opened:
                result = handler(kernel.shell_stream, identities, request)
                if inspect.iscoroutine(result):
                    drive(result)
        except KeyboardInterrupt:
            return  # it ends the widget's code; `poll` passes it on to the cell
        except Exception:
            kernel.log.error("Exception in message handler:", exc_info=True)


@dataclass(frozen=True, slots=True)
class Polling:
    """The polling of one thread that waits for a run; without effect where none is needed."""

    _shell: ShellPolling | None

    def poll(self) -> None:
        """See `ShellPolling.poll`."""
        if self._shell is not None:
            self._shell.poll()

    @property
    def seconds(self) -> float:
        """How long an event loop may wait before it polls again. It reads the channel itself, but not the queue."""
        return POLL_SECONDS if self._shell is not None else AWAKE_SECONDS

    @contextlib.contextmanager
    def event(self) -> Iterator[Event]:
        """An event for a blocked thread. It is also set while there is something to read on the shell channel."""
        if self._shell is None:
            yield threading.Event()
            return
        ours, others = socket.socketpair()
        with ours, others:
            ours.setblocking(False)
            others.setblocking(False)
            yield _ChannelEvent(self._shell.channel, ours, others)


class _ChannelEvent:
    """An event that also wakes on a ZMQ socket."""

    def __init__(self, channel: zmq.Socket[Any], ours: socket.socket, others: socket.socket) -> None:
        self._ours = ours
        self._others = others
        self._poller = zmq.Poller()
        self._poller.register(channel, zmq.POLLIN)
        self._poller.register(ours.fileno(), zmq.POLLIN)

    def set(self) -> None:
        with contextlib.suppress(BlockingIOError):  # the buffer is full of wake-ups already
            self._others.send(b"\0")

    def clear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._ours.recv(4096):
                pass

    def wait(self, timeout: float | None) -> object:
        seconds = LONGEST_SECONDS if timeout is None else min(timeout, LONGEST_SECONDS)
        return self._poller.poll(round(seconds * 1000))
