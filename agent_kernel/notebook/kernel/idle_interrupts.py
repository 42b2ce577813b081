"""SIGINT while no cell of the user's own runs: it stops the runs of this kernel, which go on without one.

ipykernel ignores the signal between messages, and raises KeyboardInterrupt while it handles one. Its hooks around each
message, and `saved_sigint_handler`, are used here and nowhere else. A cell of the user's is left to ipykernel.
"""

import logging
import queue
import signal
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

from IPython.core.interactiveshell import InteractiveShell

from agent_kernel.notebook.execution.interrupts import own_signal
from agent_kernel.notebook.kernel.environment import kernel_of
from agent_kernel.protocol.kernel_code import OWN_CODE

if TYPE_CHECKING:
    from agent_kernel.notebook.run_state import RunState

QUICK = frozenset({"kernel_info_request", "comm_info_request", "history_request", "is_complete_request"})
"""What pages ask by themselves. An interrupt is never about these, and would cost them their reply."""

ASKED = frozenset({"complete_request", "inspect_request"})
"""What may take long, because it looks at the user's objects: an interrupt ends it, and stops the runs as well."""

_log = logging.getLogger(__name__)


class IdleInterrupts:
    """One per kernel process. Its handlers only hand on: the code that they interrupt may hold any lock."""

    def __init__(self, shell: InteractiveShell, open_runs: "Callable[[], Sequence[RunState]]") -> None:
        self._open_runs = open_runs
        self._interrupted: queue.SimpleQueue[tuple[str | None, Callable[[], bool] | None]] = queue.SimpleQueue()
        self.tell: Callable[[str | None], None] = lambda _run_id: None
        """Called, in any thread, with the id of a run that this kernel did not start, or for all such runs."""
        self.was_asked_for: Callable[[float], bool] = lambda _seconds: True
        """Whether somebody has asked Jupyter for an interrupt within so many seconds. In any thread; may block for a
        second. Where there is no server to ask, nobody can know who has sent a signal: then it counts as the user's."""
        self._is_new = False
        """Whether the message at hand has had no code begin so far."""
        self._kernel: Any = kernel_of(shell)
        if hasattr(self._kernel, "saved_sigint_handler"):
            threading.Thread(target=self._stop_runs, name="agent-kernel-interrupts", daemon=True).start()
            self._watch_messages()
            shell.events.register("pre_execute", self._code_begins)

    def interrupted(self, run_id: str | None, is_meant: Callable[[], bool] | None = None) -> None:
        """Have this run stopped, or all; where `is_meant` is given, if it says so. For a signal's handler, too."""
        self._interrupted.put((run_id, is_meant))

    def stop(self, run_id: str | None) -> None:
        """Stop this run, or all. The last one first: an earlier one's end would begin it."""
        known = False
        for run in reversed(self._open_runs()):
            if run_id in (None, run.run_id):
                known = True
                run.stop("interrupted")
        if run_id is None or not known:
            self.tell(run_id)

    def _stop_runs(self) -> None:
        while True:
            run_id, is_meant = self._interrupted.get()
            try:
                if is_meant is None or is_meant():
                    self.stop(run_id)
            except Exception:  # noqa: BLE001 -- the next interrupt must find this thread
                _log.warning("The runs could not be stopped.", exc_info=True)

    def _watch_messages(self) -> None:
        kernel, begin, end = self._kernel, self._kernel.pre_handler_hook, self._kernel.post_handler_hook

        def begins() -> None:
            begin()
            if not _is_main_thread():
                return  # of a subshell, which signals do not reach
            self._is_new = True
            if (handler := self._handler()) is not None:
                signal.signal(signal.SIGINT, handler)

        def ended() -> None:
            end()
            if _is_main_thread():
                signal.signal(signal.SIGINT, self._between)

        kernel.pre_handler_hook, kernel.post_handler_hook = begins, ended
        kernel.saved_sigint_handler = self._between

    def _handler(self) -> Callable[[int, FrameType | None], Any] | None:
        """What an interrupt does while the message at hand is handled; `None` where it is ipykernel's matter."""
        message = self._kernel.get_parent("shell")
        kind = message.get("header", {}).get("msg_type")
        if kind == "execute_request":
            return self._between if _is_own(message) else None
        runs = self._open_runs()
        if not runs:
            return None
        if kind == "comm_msg":
            comm_id = message.get("content", {}).get("comm_id")
            return self._between if any(run.spec.widget_model_id == comm_id for run in runs) else None
        if kind in QUICK:
            return self._between
        return self._within if kind in ASKED else None

    def _code_begins(self) -> None:
        """For code that awaits, ipykernel has set a handler of its own since the message came. The code of a call,
        which runs inside that code, begins here as well."""
        if _is_main_thread() and self._is_new and _is_own(self._kernel.get_parent("shell")):
            signal.signal(signal.SIGINT, self._between)
        self._is_new = False

    def _between(self, _signal: int, _frame: FrameType | None) -> None:
        if not own_signal.take():  # one of our own that comes too late is for nobody
            self.interrupted(None)

    def _within(self, number: int, frame: FrameType | None) -> None:
        self._between(number, frame)
        raise KeyboardInterrupt


def _is_own(message: dict[str, Any]) -> bool:
    content = message.get("content") or {}
    code = content.get("code")
    return bool(content.get("silent")) and isinstance(code, str) and code.removeprefix("await ").startswith(OWN_CODE)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
