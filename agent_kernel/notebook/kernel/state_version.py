"""`StateVersion`: a text that is another one whenever something may have changed what read-only calls read.

It changes with each cell of the user's, when it begins, when it ends, and when it goes on after a wait for a run; with
each call that is not read-only; and with an undo. A cell that is a prompt and nothing else changes nothing. What
threads and tasks do beside cells and calls is not seen, nor what happens outside of this kernel.
"""

import uuid
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from agent_kernel.notebook.execution.runner import current_entry
from agent_kernel.notebook.kernel.environment import content_of
from agent_kernel.notebook.kernel.idle_interrupts import PROMPT, is_own


class StateVersion:
    """One per kernel process. Read in any thread."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._in_cell = True
        """Whether a cell runs that is no prompt: the one that imports this."""
        self.changed()
        shell.events.register("pre_execute", self._on_silent_code)
        shell.events.register("post_execute", self._on_silent_code)
        shell.events.register("pre_run_cell", lambda info: self._on_code(info, begins=True))
        # An interrupted cell may have no result.
        shell.events.register("post_run_cell", lambda done: self._on_code(getattr(done, "info", None), begins=False))

    def changed(self) -> None:
        """Something may have changed. For any thread: it is one assignment."""
        self.text = uuid.uuid4().hex

    def on_waited(self) -> None:
        """What has waited for a run goes on: a cell, or the code of a call. A prompt has nothing that goes on."""
        if self._in_cell or current_entry.get() is not None:
            self.changed()

    def _on_code(self, info: Any, *, begins: bool) -> None:
        """A cell begins or ends, or code that a cell has IPython run."""
        if current_entry.get() is not None:
            return  # the code of a call
        code = getattr(info, "raw_cell", None)
        is_prompt = isinstance(code, str) and code.split(maxsplit=1)[:1] == [PROMPT]
        if not is_prompt:
            self.changed()
        if code is None or code == content_of(self._shell).get("code", code):
            self._in_cell = begins and not is_prompt

    def _on_silent_code(self) -> None:
        """What a page runs unseen, to list variables for example."""
        content = content_of(self._shell)
        if current_entry.get() is None and content.get("silent") and not is_own(content):
            self.changed()
