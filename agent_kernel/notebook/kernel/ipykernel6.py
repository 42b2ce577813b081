"""Lets a kernel with ipykernel 6 hear its pages while its main thread waits for a run.

There cells, and what a page says to a widget, come on one channel, which the main thread reads between cells. So a main
thread that waits reads it itself: what is for widgets is answered at once; all else goes back into the kernel's own
queue, in its order, and the kernel runs or aborts it when the cell has ended. That a cell can hear widgets this way is
the idea of jupyter_ui_poll (https://github.com/Kirill888/jupyter-ui-poll). That library is not used: it answers in
another thread, can't be nested, and runs the cells that came meanwhile itself, also those that the kernel would abort.
From ipykernel 7 on a page has a line of its own, and nothing is done here.

`msg_queue`, `_parent_ident` and `_publish_status` are no documented API: they are used here and nowhere else, and
tested on the versions of ipykernel that have them.
"""

import contextlib
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import zmq
from IPython.core.interactiveshell import InteractiveShell

from agent_kernel.notebook.execution.executor import drive
from agent_kernel.notebook.execution.interrupts import InterruptGate
from agent_kernel.notebook.execution.redirect import own_figures
from agent_kernel.notebook.kernel.cell_requests import CellRequest, read_frames
from agent_kernel.notebook.kernel.environment import hears_while_blocked, kernel_of
from agent_kernel.notebook.kernel.waiter import Waiter, wake

POLL_SECONDS = 0.03
"""How long a click may lie unread while the main thread's event loop waits. A thread that is blocked hears at once."""

AWAKE_SECONDS = 0.5
"""ipykernel cancels an interrupted `await` when its event loop wakes next, and does not wake it."""

AT_ONCE = frozenset({"comm_open", "comm_msg", "comm_close", "comm_info_request", "kernel_info_request"})
"""What a page says to widgets, and what it asks before it shows one. None of it is in an order with cells."""


class ShellPolling:
    """One per kernel process."""

    def __init__(self, shell: InteractiveShell, asked_for: Callable[[CellRequest], None]) -> None:
        """`asked_for` is told of each request to run a cell that is found waiting behind the one that waits."""
        self._kernel = kernel_of(shell)
        self._needed = self._kernel is not None and not hears_while_blocked(shell)
        self._asked_for = asked_for
        self._waits = 0
        self._looked_at = -1
        """The number of the last queued message that was looked at."""
        self._watchers: list[Callable[[], None]] = []

    @property
    def hears_pages(self) -> bool:
        """Whether pages are heard now, though a cell may be running. A call that runs is another matter."""
        return not self._needed or self._waits > 0

    def watch(self, watcher: Callable[[], None]) -> None:
        """Have `watcher` called on the main thread whenever `hears_pages` may have changed."""
        self._watchers.append(watcher)

    @contextlib.contextmanager
    def waiting(self) -> Iterator["Ear"]:
        """Within, this thread waits for a run. May be nested, and entered by several tasks at once."""
        if not self._needed or threading.current_thread() is not threading.main_thread():
            yield Ear(None)
            return
        self._waits += 1
        try:
            self._tell()
            yield Ear(self)
        finally:
            self._waits -= 1
            self._tell()

    def _tell(self) -> None:
        for watcher in self._watchers:
            watcher()

    @property
    def channel(self) -> zmq.Socket[Any]:
        socket: zmq.Socket[Any] = self._kernel.shell_stream.socket  # type: ignore[union-attr]
        return socket

    def hear(self) -> None:
        """Answer what has come for widgets. An interrupt ends what a widget does just then, and then the wait."""
        with (gate := InterruptGate()).installed():
            while not gate.interrupted and (message := self._take()) is not None:
                self._answer(message, gate)
        gate.pass_on()

    def _take(self) -> list[Any] | None:
        """The first message that can be answered now. The others stay in the queue, in their order."""
        kernel: Any = self._kernel
        kernel.shell_stream.flush()  # what has come on the channel is now in the queue
        found: list[Any] | None = None
        for _ in range(kernel.msg_queue.qsize()):
            number, dispatch, arguments = item = kernel.msg_queue.get_nowait()
            if found is None and number > self._looked_at:
                self._looked_at = number
                kind = self._kind_of(arguments[0]) if dispatch == kernel.dispatch_shell else None
                if kind in AT_ONCE:
                    found = arguments[0]
                    continue
                if kind == "execute_request" and (request := read_frames(kernel.session, arguments[0])) is not None:
                    self._asked_for(request)
            kernel.msg_queue.put_nowait(item)
        return found

    def _kind_of(self, message: list[Any]) -> Any:
        session = self._kernel.session  # type: ignore[union-attr]
        try:
            _, parts = session.feed_identities(message, copy=False)
            return session.unpack(parts[1].bytes).get("msg_type")
        except (ValueError, LookupError, AttributeError):
            return None  # the kernel will say what is wrong with it

    def _answer(self, message: list[Any], gate: InterruptGate) -> None:
        """As the kernel's own dispatch, which would swallow interrupts; then what is printed is the cell's again."""
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
        kernel: Any = self._kernel
        handler = kernel.shell_handlers[request["header"]["msg_type"]]
        # One that came since the message was taken from the queue must not cost the message.
        opened = contextlib.nullcontext() if gate.interrupted else gate.open()
        try:
            with own_figures(), opened:
                result = handler(kernel.shell_stream, identities, request)
                if inspect.iscoroutine(result):
                    drive(result)
        except KeyboardInterrupt:
            return  # it ends what the user's own widget does; `hear` passes it on to the cell
        except Exception:
            kernel.log.error("Exception in message handler:", exc_info=True)


@dataclass(frozen=True, slots=True)
class Ear:
    """What a thread that waits hears with: nothing, where others hear for it."""

    _polling: ShellPolling | None

    def hear(self) -> None:
        if self._polling is not None:
            self._polling.hear()

    @property
    def seconds(self) -> float:
        """How long an event loop may wait before it hears again. It reads the channel itself, but not the queue."""
        return POLL_SECONDS if self._polling is not None else AWAKE_SECONDS

    def wake(self) -> contextlib.AbstractContextManager[Waiter]:
        """What a thread may sleep on until it is told of something, or there is something to hear."""
        return wake(self._polling.channel if self._polling is not None else None)
