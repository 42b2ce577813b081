"""Handles SIGINT while no cell of the user's runs: it cancels the runs of this kernel, which go on without a cell.

ipykernel ignores the signal between messages, and raises KeyboardInterrupt while it handles one. Its hooks around each
message, `saved_sigint_handler` and `_cancel_on_sigint` are used only here. While a cell of the user's runs, the signal
is left to ipykernel.
"""

import logging
import queue
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from agent_kernel.notebook.execution.call_interrupts import own_signal
from agent_kernel.notebook.kernel.environment import content_of, kernel_of, message_of
from agent_kernel.notebook.kernel.run_state import RunState
from agent_kernel.protocol.kernel import OWN_CODE

QUICK = frozenset({"kernel_info_request", "comm_info_request", "history_request", "is_complete_request"})
"""Requests that pages make on their own. An interrupt is never meant for these, and would cost them their reply."""

PROMPT = "%%agent"
"""What the source of a cell begins with that is a prompt and nothing else."""

_log = logging.getLogger(__name__)


class IdleInterrupts:
    """One per kernel process. Its signal handlers only queue: the code that they interrupt may hold any lock."""

    def __init__(self, shell: InteractiveShell, open_runs: Callable[[], Sequence[RunState]]) -> None:
        self._open_runs = open_runs
        self._requests: queue.SimpleQueue[tuple[str | None, Callable[[], bool] | None]] = queue.SimpleQueue()
        self.cancel_elsewhere: Callable[[str | None], None] = lambda _run_id: None
        """Called, in any thread, with the id of a run that this kernel did not start, or with `None` for all such."""
        self.was_asked_for: Callable[[float], bool] = lambda _seconds: True
        """Whether Jupyter was asked for an interrupt within the last `seconds`. For any thread; may block for a second.
        Without a server to ask, the origin of a signal can't be known: then it counts as the user's."""
        self._shell = shell
        self._kernel: Any = kernel_of(shell)
        if hasattr(self._kernel, "saved_sigint_handler"):
            threading.Thread(target=self._cancel_requested, name="agent-kernel-interrupts", daemon=True).start()
            self._watch_messages()
            self._leave_own_code_alone()

    def request_cancel(self, run_id: str | None, confirm: Callable[[], bool] | None = None) -> None:
        """Have this run cancelled, or all, by another thread; where `confirm` is given, only if it returns true. Safe
        in a signal handler."""
        self._requests.put((run_id, confirm))

    def prompt_was_asked(self) -> None:
        """The `%%agent` of a cell has done all that it does. What is left of the message is Jupyter's own: there a
        KeyboardInterrupt would cost the cell its reply, and end nothing."""
        code = content_of(self._shell).get("code")
        # Code of the user's that has called the magic goes on, and is interrupted as ever.
        if _is_main_thread() and isinstance(code, str) and code.lstrip().startswith(PROMPT):
            signal.signal(signal.SIGINT, self._on_idle_signal)

    def cancel(self, run_id: str | None) -> None:
        """Cancel this run, or all. The latest goes first, because the end of an earlier one would start it."""
        known = False
        for run in reversed(self._open_runs()):
            if run_id in (None, run.run_id):
                known = True
                run.cancel("interrupted")
        if run_id is None or not known:
            self.cancel_elsewhere(run_id)

    def _cancel_requested(self) -> None:
        while True:
            run_id, confirm = self._requests.get()
            try:
                if confirm is None or confirm():
                    self.cancel(run_id)
            except Exception:  # noqa: BLE001 -- the next interrupt needs this thread
                _log.warning("The runs could not be stopped.", exc_info=True)

    def _watch_messages(self) -> None:
        kernel, before, after = self._kernel, self._kernel.pre_handler_hook, self._kernel.post_handler_hook

        def begin() -> None:
            message = message_of(self._shell)
            kind = message.get("header", {}).get("msg_type")
            # A subshell's message is not on the main thread, which alone gets signals.
            if _is_main_thread() and (kind in QUICK or is_own(message.get("content") or {})):
                # Without ipykernel's in between: it raises where nothing catches that, which ends the kernel.
                signal.signal(signal.SIGINT, self._on_idle_signal)
            else:
                before()

        def end() -> None:
            after()
            if _is_main_thread():
                signal.signal(signal.SIGINT, self._on_idle_signal)

        kernel.pre_handler_hook, kernel.post_handler_hook = begin, end
        kernel.saved_sigint_handler = self._on_idle_signal

    def _leave_own_code_alone(self) -> None:
        """Keep ipykernel from setting its handler for code that awaits where that is a call's: a signal that came
        before the call's own code would be lost."""
        original = getattr(self._kernel, "_cancel_on_sigint", None)
        if original is None:
            return  # a version of ipykernel that sets no such handler

        def cancel_on_sigint(future: Any) -> AbstractContextManager[None]:
            own = is_own(content_of(self._shell))
            watched: AbstractContextManager[None] = nullcontext() if own else original(future)
            return watched

        self._kernel._cancel_on_sigint = cancel_on_sigint

    def _on_idle_signal(self, _signal: int, _frame: FrameType | None) -> None:
        if not own_signal.take():  # a signal of this process's own that comes too late is dropped
            self.request_cancel(None)


def is_own(content: dict[str, Any]) -> bool:
    """Whether the content of a message has the kernel run code of Agent Kernel's own."""
    code = content.get("code")
    return bool(content.get("silent")) and isinstance(code, str) and code.removeprefix("await ").startswith(OWN_CODE)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
