"""`KernelState`: what Agent Kernel keeps in this kernel process, above all its runs and their tools."""

import functools
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from IPython.core.getipython import get_ipython
from IPython.core.interactiveshell import InteractiveShell

from agent_kernel.errors import ConfigurationError, UnknownRun
from agent_kernel.notebook.execution.approved_calls import Calls
from agent_kernel.notebook.execution.runner import CallRunner
from agent_kernel.notebook.kernel.cell_requests import CellRequest
from agent_kernel.notebook.kernel.cells_run_again import Cells
from agent_kernel.notebook.kernel.environment import check_version
from agent_kernel.notebook.kernel.idle_interrupts import IdleInterrupts
from agent_kernel.notebook.kernel.ran_cells import RanCells
from agent_kernel.notebook.kernel.run_state import RunState
from agent_kernel.notebook.kernel.state_version import StateVersion
from agent_kernel.notebook.kernel.to_server import Questions
from agent_kernel.notebook.offered_tools import offered_tools
from agent_kernel.protocol.kernel import MOST_REPLACED
from agent_kernel.tools.tool import Tool

KEPT_RUNS = 200
"""How many runs can be found by id, besides the open ones. A `Run` that the user holds works without that."""


class KernelState:
    """One per kernel process."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell
        self._runs: OrderedDict[str, RunState] = OrderedDict()
        self._tools: dict[str, Tool] = {}
        self.calls = Calls()
        self.interrupts = IdleInterrupts(shell, self.open_runs)
        self.questions = Questions()
        self.served_through_gateway = threading.Event()
        """Set when a server that reaches this kernel through a gateway has said that it serves it."""
        self.cells = Cells(shell, self.open_runs)
        self.ran = RanCells(shell)
        self.version = StateVersion(shell)
        self.runner = CallRunner(shell, self.calls, self.find_tool, self.interrupts, self.version.changed)

    def add_run(self, run: RunState) -> None:
        self._runs[run.run_id] = run
        self._tools.update({tool.declaration.name: tool for tool in run.tools})
        surplus = [run_id for run_id, one in self._runs.items() if one.done][: max(0, len(self._runs) - KEPT_RUNS)]
        for run_id in surplus:
            del self._runs[run_id]

    def run(self, run_id: str) -> RunState:
        """Raises `UnknownRun`."""
        if run_id not in self._runs:
            raise UnknownRun(run_id)
        return self._runs[run_id]

    def runs(self) -> list[RunState]:
        """The runs that can be found by id, the oldest first."""
        return list(self._runs.values())

    def open_runs(self) -> list[RunState]:
        """The runs that have not ended, the oldest first. For any thread."""
        return [run for run in self.runs() if not run.done]

    @property
    def last_run(self) -> RunState | None:
        return next(reversed(self._runs.values()), None)

    def cell_of(self, run_id: str | None) -> str | None:
        """The id of the cell that started a run, where the front end identifies cells."""
        run = self._find(run_id)
        return run.cell.cell_id if run is not None and run.cell is not None else None

    def number_of(self, run_id: str | None) -> int | None:
        """The number of the cell that started a run, if one did."""
        run = self._find(run_id)
        return run.number if run is not None else None

    def was_interrupted(self, run_id: str | None) -> bool:
        """Whether an interrupt of the kernel has cancelled this run, so that no further call of it may start."""
        run = self._find(run_id)
        return run is not None and run.stop_cause == "interrupted"

    def _find(self, run_id: str | None) -> RunState | None:
        return self._runs.get(run_id) if run_id is not None else None

    def replaced_by(self, request: CellRequest, conversation_id: str) -> tuple[str, ...]:
        """The runs of a conversation that earlier requests to run the same cell have started."""
        earlier = [
            run.run_id
            for run in self.runs()
            if run.conversation_id == conversation_id
            and run.cell is not None
            and run.cell.cell_id == request.cell_id
            and run.cell.message_id != request.message_id
        ]
        return tuple(earlier[-MOST_REPLACED:])

    def begins_conversation(self, request: CellRequest, conversation_id: str) -> bool:
        """Whether a request asks for a new conversation instead of this one, which it has not begun itself."""
        runs = [run for run in self.runs() if run.conversation_id == conversation_id]
        return request.new_conversation and not any(run.cell == request for run in runs)

    @property
    def cell_number(self) -> int:
        """The number of the current cell, as in `[2]`. In newer IPython the shell's own count is one more by then."""
        shell: Any = self.shell
        return len(shell.history_manager.input_hist_parsed) - 1

    def continued_by(self, conversation_id: str, replaces: Sequence[str]) -> int | None:
        """The number of the cell whose run a prompt of the current cell continues; `None` if there is no other."""
        earlier = [
            run.number for run in self.runs() if run.conversation_id == conversation_id and run.run_id not in replaces
        ]
        return earlier[-1] if earlier and earlier[-1] != self.cell_number else None

    def find_tool(self, run_id: str | None, name: str) -> Tool | None:
        """The tool that this run offers; for an unknown run, the one that was last offered by that name."""
        run = self._find(run_id)
        for tool in run.tools if run is not None else ():
            if tool.declaration.name == name:
                return tool
        return self._tools.get(name) or self._builtin.get(name)

    @functools.cached_property
    def _builtin(self) -> dict[str, Tool]:
        """For runs that were started over HTTP, which no cell declared."""
        return {tool.declaration.name: tool for tool in offered_tools(self.shell, (), has_cells=True)}


@functools.cache
def _state_of(shell: InteractiveShell) -> KernelState:
    check_version(shell)
    return KernelState(shell)


def kernel_state() -> KernelState:
    """The state of this kernel. Raises `ConfigurationError` outside IPython, and in a kernel that is too old."""
    shell = get_ipython()
    if shell is None:
        raise ConfigurationError("Agent Kernel works inside IPython: in a notebook, or in the `ipython` shell.")
    return _state_of(shell)
