"""`Agent`: a conversation in this notebook, and the runs in it."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from agent_kernel.approvals.rules import check_rules
from agent_kernel.approvals.scripted import ScriptedDecision, ScriptEntry, script
from agent_kernel.errors import ConfigurationError
from agent_kernel.notebook.execution.call_interrupts import Notice, RunInterrupted
from agent_kernel.notebook.hosts.discovery import has_server, host_for
from agent_kernel.notebook.kernel.cell_end import cell_end
from agent_kernel.notebook.kernel.cell_requests import CellRequest
from agent_kernel.notebook.kernel.run_state import RunState
from agent_kernel.notebook.kernel.state import kernel_state
from agent_kernel.notebook.kernel.wait import end_interrupted
from agent_kernel.notebook.offered_tools import offered_tools, split_cache, split_wanted, with_cache, with_timeouts
from agent_kernel.notebook.options import Budget, Policy, as_effort
from agent_kernel.notebook.run import Run, state_of
from agent_kernel.protocol.ids import new_conversation_id, new_run_id
from agent_kernel.protocol.kernel import RunDeclaration
from agent_kernel.protocol.vocabulary import Effort, PolicyMode
from agent_kernel.tools.tool import faults_of

__all__ = ["Agent", "Budget", "Policy", "last_run", "runs"]


class Agent:
    """An agent in this notebook. Its runs are one conversation: each prompt continues the last.

    `model`: a model's name, or a model object (`agent_kernel.models.base.Model`); `None` is the host's default.
    `tools`: functions, `ak.tool` functions and LangChain tools, which are offered beside the built-in tools; names of
    built-in tools, if there are any, select which of those are offered. `"github.*"` and `"github.search"` are tools of
    MCP servers; if no tool is selected by name, there are all of them.
    `system`: replaces the default system prompt.
    `policy`: "ask", "edit", "allow", "deny", "plan", or an `ak.Policy`.
    `budget`: the limits of each run, an `ak.Budget`. `conversation_budget`: those of all runs together.
    `timeouts`: the longest time of one call, in seconds, by the tool's name: `{"run_python": 600}`.
    `cache`: names of read-only tools whose calls may be given a stored outcome, as with `ak.tool(cache=True)`. Tools of
    MCP servers are named one by one, such as `"github.search_code"`; their outcomes are kept for 5 minutes.
    `effort`: how much the model reasons, if it has a choice: "low", "medium" or "high".
    Raises `ConfigurationError` for a value that is not valid, `ToolDeclarationError` for a tool that can't be offered.
    """

    def __init__(
        self,
        model: Any = None,
        tools: Iterable[Any] = (),
        system: str | None = None,
        policy: Policy | PolicyMode | None = None,
        budget: Budget | None = None,
        effort: Effort | None = None,
        conversation_budget: Budget | None = None,
        timeouts: Mapping[str, float] | None = None,
        cache: Iterable[str] = (),
    ) -> None:
        _check_model(model)
        self._kernel_state = kernel_state()
        self.conversation_id = new_conversation_id()
        self.model = model
        served = has_server(self._kernel_state, model)
        self._server_tools, tools = split_wanted(tools, served=served)
        offered = offered_tools(self._kernel_state.shell, tools, has_cells=served)
        self._server_cache, own_cache = split_cache(cache, offered, self._server_tools, served=served)
        self.tools = with_cache(with_timeouts(offered, timeouts or {}), own_cache)
        self.system = system
        self.policy = policy if policy is None or isinstance(policy, Policy) else Policy(default=policy)
        if self.policy is not None and self.policy.rules:
            check_rules(self.policy.rules, [tool.declaration for tool in self.tools])
        self.budget = _checked_budget(budget, "budget")
        self.conversation_budget = _checked_budget(conversation_budget, "conversation_budget")
        self.effort = as_effort(effort)

    def start(self, prompt: str, approvals: Iterable[ScriptEntry] | None = None) -> Run:
        """Start a run and return at once. `await run` or `run.wait()` holds the cell until it ends.

        Where nobody sits in front of the notebook (nbclient, papermill, nbconvert), the cell waits for the run at its
        end, and fails if the run failed and the cell's code has not read `run.error`.

        `approvals` are decisions on the run's calls, in place of a person's and of its policy's script: `True`,
        `(False, "why")`, or one of `ak.approve`, `ak.deny`, `ak.edit`, `ak.answer` each. A call that asks takes the
        first that covers it, and is denied where none does. Without any, calls ask a person, or are denied where there
        is none. Policy stands above them. Raises `ConfigurationError`.
        """
        if not isinstance(prompt, str):
            raise ConfigurationError(f"A prompt is text, not {type(prompt).__name__!r}.")
        if not prompt.strip():
            raise ConfigurationError("The prompt is empty. Say what the agent should do.")
        host = host_for(self._kernel_state, self.model)
        cell = self._kernel_state.cells.current()
        if cell is not None and self._kernel_state.begins_conversation(cell, self.conversation_id):
            self.conversation_id = new_conversation_id()
        replaces = () if cell is None else self._kernel_state.replaced_by(cell, self.conversation_id)
        own_script = () if self.policy is None else self.policy.script
        decisions = own_script if approvals is None else script(approvals)
        declaration = self._declaration(prompt, decisions, cell, replaces)
        state = RunState(
            host,
            declaration,
            self.tools,
            number=self._kernel_state.cell_number,
            cell=cell,
            model=self.model,
        )
        self._start(state)
        return Run(self._kernel_state, state)

    def _declaration(
        self, prompt: str, script: tuple[ScriptedDecision, ...], cell: CellRequest | None, replaces: tuple[str, ...]
    ) -> RunDeclaration:
        try:
            return RunDeclaration(
                run_id=new_run_id(),
                conversation_id=self.conversation_id,
                prompt=prompt,
                model=self.model if isinstance(self.model, str) else None,
                tools=tuple(tool.declaration for tool in self.tools),
                server_tools=self._server_tools,
                server_cache=self._server_cache,
                policy=None if self.policy is None else self.policy.default,
                rules=() if self.policy is None else tuple(self.policy.rules),
                script=script,
                system=self.system,
                budget=self.budget.limits(),
                conversation_budget=self.conversation_budget.limits(),
                effort=self.effort,
                replaces=replaces,
                continues=self._kernel_state.continued_by(self.conversation_id, replaces),
                cell_id=cell.cell_id if cell is not None else None,
                cells_before=self._kernel_state.cells.before(cell),
            )
        except ValidationError as error:
            raise ConfigurationError(f"The run can't be started: {faults_of(error)}") from None

    def _start(self, run: RunState) -> None:
        """Start the run completely: an interrupt meanwhile is taken for one of the started run."""
        notice = Notice(passes_on=False)
        with notice.taken():
            self._kernel_state.add_run(run)
            run.host.start(run)
            self._kernel_state.cells.on_run_started(run)
            if run.host.blocks and (end := cell_end(self._kernel_state)) is not None:
                end.on_run_started(run)
        if notice.interrupted:
            end_interrupted(self._kernel_state, run)
            raise RunInterrupted

    def run(self, prompt: str, approvals: Iterable[ScriptEntry] | None = None) -> Run:
        """Start a run and wait for its end; an interrupt cancels it. The arguments and errors are those of `start`."""
        return wait_or_cancel(self.start(prompt, approvals))


def _check_model(model: Any) -> None:
    """Raises `ConfigurationError` for what is no name and lacks what a run uses of a model."""
    if model is None or isinstance(model, str):
        return
    lacks = ", ".join(name for name in ("name", "recorded", "stream") if not hasattr(model, name))
    if lacks or isinstance(model, type):
        said = repr(model) if isinstance(model, type) else f"{type(model).__name__!r}, which has no {lacks}"
        raise ConfigurationError(
            "A model is a name, such as 'gpt-6.1-sol' (%agent models lists them), or an object as "
            f"agent_kernel.models.base.Model describes, not {said}."
        )
    if not isinstance(model.name, str) or not model.name:
        raise ConfigurationError(f"The name of a model is text, not {model.name!r}: {type(model).__name__!r} has it.")


def _checked_budget(budget: Budget | None, name: str) -> Budget:
    if budget is not None and not isinstance(budget, Budget):
        raise ConfigurationError(f"{name} is an ak.Budget, such as ak.Budget(usd=0.50), not {type(budget).__name__!r}.")
    return budget or Budget()


def wait_or_cancel(run: Run) -> Run:
    """Wait for a run; an interrupt cancels it, even if it comes before the wait has begun."""
    try:
        return run.wait()
    except KeyboardInterrupt:
        state_of(run).cancel("interrupted")
        raise


def last_run() -> Run | None:
    """The latest run in this kernel, of any agent; `None` before the first."""
    state = kernel_state()
    return Run(state, state.last_run) if state.last_run is not None else None


def runs() -> list[Run]:
    """The runs in this kernel, of any agent, the oldest first: all open ones, and the latest that have ended."""
    state = kernel_state()
    return [Run(state, run) for run in state.runs()]
