"""Ends the cells of a notebook without a person in front of it: nbclient, papermill, nbconvert, nbval.

Such a client knows a failure by the reply to a cell alone, and shuts the kernel down after the last one. So a cell ends
when the runs that it started have ended, also those that it did not wait for, and fails if one of them failed.
"""

import functools
from collections.abc import Sequence
from typing import Any

from IPython.core.interactiveshell import ExecutionResult

from agent_kernel.errors import RunFailed
from agent_kernel.notebook.kernel.environment import content_of, is_attended, kernel_of
from agent_kernel.notebook.kernel.run_state import RunState
from agent_kernel.notebook.kernel.state import KernelState
from agent_kernel.notebook.kernel.wait import wait

MOST_PROMPT_CHARACTERS = 60
LET_PASS = (
    "To go on after a failed run: `%%agent --allow-failure`, or in Python read `run.error` in the cell that starts it."
)


class UnhandledFailure(RunFailed):
    """Runs failed, and the cell that started them has not handled it. Shown without a traceback: no line of the user's
    raised it."""

    def __init__(self, runs: Sequence[RunState]) -> None:
        super().__init__("\n".join([*map(failure_text, runs), LET_PASS]))
        self._run_ids = [run.run_id for run in runs]

    def _render_traceback_(self) -> list[str]:
        # An id differs each time, so it is not in the message, which nbval compares.
        return [f"{RunFailed.__name__}: {self}", f"Failed: {', '.join(self._run_ids)}"]


UnhandledFailure.__name__ = RunFailed.__name__


def failure_text(run: RunState) -> str:
    """Which run failed, by the beginning of its prompt, and why; the error's message has advice."""
    error = run.end.run.error if run.end is not None else None
    why = error.message if error is not None else "It did not say why."
    first, *more = run.prompt.strip().splitlines()
    prompt = first if len(first) <= MOST_PROMPT_CHARACTERS and not more else f"{first[:MOST_PROMPT_CHARACTERS]}…"
    return f'The agent\'s run "{prompt}" failed: {why}'


class CellEnd:
    """One per kernel process."""

    def __init__(self, state: KernelState) -> None:
        self._state = state
        self._runs: list[RunState] = []
        """Those that unattended cells have started, and whose end no cell has waited for yet."""
        state.shell.events.register("post_run_cell", self._on_cell_end)

    def on_run_started(self, run: RunState) -> None:
        if not is_attended(self._state.shell) and not content_of(self._state.shell).get("silent"):  # nor in a call
            self._runs.append(run)

    def _on_cell_end(self, result: ExecutionResult) -> None:
        """A hook of IPython's, which also calls it after the code of a call and after nested cells."""
        info = result.info
        if not self._runs or info is None or info.raw_cell != content_of(self._state.shell).get("code"):
            return
        if is_attended(self._state.shell):
            self._runs.clear()  # a person has come, and sees the cards
            return
        if not result.success:
            # The next cell, if the client goes on, waits for what is open.
            self._runs = [run for run in self._runs if not run.done]
            return
        runs, self._runs = self._runs, []
        try:
            for run in runs:
                wait(self._state, run)
        except KeyboardInterrupt as interrupt:
            for run in runs:
                run.cancel("interrupted")
            self._fail(result, interrupt)
            return
        failed = [run for run in runs if run.status == "error" and not run.failure_handled]
        if failed:
            self._fail(result, UnhandledFailure(failed))

    def _fail(self, result: ExecutionResult, error: BaseException) -> None:
        """Have the cell end in `error`, in its outputs and in the reply, which the kernel makes from `result`."""
        show: Any = self._state.shell.showtraceback
        show((type(error), error, error.__traceback__))
        result.error_in_exec = error


@functools.cache
def cell_end(state: KernelState) -> CellEnd | None:
    """`None` in plain IPython, where a person reads the record."""
    return CellEnd(state) if kernel_of(state.shell) is not None else None
