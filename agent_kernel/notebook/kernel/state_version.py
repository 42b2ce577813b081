"""`StateVersion`: a text that is another one whenever something may have changed what read-only calls read.

It changes with each cell of the user's, when it begins, when it ends, and when it goes on after a wait for a run; with
each call that is not read-only; and with an undo. A cell that is a prompt and nothing else changes nothing. What
threads and tasks do beside cells and calls is not seen, nor what happens outside of this kernel.
"""

import uuid
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from agent_kernel.notebook.execution.runner import current_entry
from agent_kernel.notebook.kernel.environment import kernel_of
from agent_kernel.notebook.kernel.idle_interrupts import PROMPT, is_own


class StateVersion:
    """One per kernel process. Read in any thread."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._in_prompt = False
        self.changed()
        shell.events.register("pre_execute", self._on_silent_code)
        shell.events.register("post_execute", self._on_silent_code)
        shell.events.register("pre_run_cell", self._on_cell_start)
        shell.events.register("post_run_cell", self._on_cell_end)

    def changed(self) -> None:
        """Something may have changed. For any thread: it is one assignment."""
        self.text = uuid.uuid4().hex

    def on_waited(self) -> None:
        """What has waited for a run goes on: a cell, or the code of a call. A prompt has nothing that goes on."""
        if not self._in_prompt or current_entry.get() is not None:
            self.changed()

    def _on_cell_start(self, info: Any) -> None:
        if current_entry.get() is None:  # else it is the code of a call
            self._in_prompt = _is_prompt(info)
            self._on_code()

    def _on_cell_end(self, result: Any) -> None:
        if current_entry.get() is None:
            self._in_prompt = _is_prompt(getattr(result, "info", None))  # an interrupted cell may have no result
            self._on_code()
            self._in_prompt = False

    def _on_code(self) -> None:
        if not self._in_prompt:
            self.changed()

    def _on_silent_code(self) -> None:
        """What a page runs unseen, to list variables for example."""
        kernel = kernel_of(self._shell)
        message = kernel.get_parent("shell") if kernel is not None else {}
        if current_entry.get() is None and (message.get("content") or {}).get("silent") and not is_own(message):
            self.changed()


def _is_prompt(info: Any) -> bool:
    code = getattr(info, "raw_cell", None)
    return isinstance(code, str) and code.split(maxsplit=1)[:1] == [PROMPT]
