"""`Agent`: one conversation, in which runs follow one another."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agent_kernel.approvals.rule_check import check_rules
from agent_kernel.errors import ConfigurationError
from agent_kernel.notebook.execution.interrupts import Notice, RunInterrupted
from agent_kernel.notebook.hosts.discovery import is_served_from_afar
from agent_kernel.notebook.kernel.cells import request_of
from agent_kernel.notebook.kernel.environment import is_served
from agent_kernel.notebook.kernel.state import KernelState, kernel_state
from agent_kernel.notebook.options import Budget, Decision, Policy, as_decisions, as_effort, as_policy
from agent_kernel.notebook.run import Run, state_of
from agent_kernel.notebook.run_state import Host, RunState
from agent_kernel.notebook.tools import offered_tools, with_timeouts
from agent_kernel.protocol.ids import new_conversation_id, new_run_id
from agent_kernel.protocol.vocabulary import Effort, PolicyMode
from agent_kernel.runtime.settings import RunSpec

__all__ = ["Agent", "Budget", "Policy", "last_run", "runs"]


class Agent:
    """An agent in this notebook. What it is told and what it does is one conversation.

    `model`: a name, or an object that is a model (`agent_kernel.models.base.Model`); `None` is the host's default.
    `tools`: functions, `ak.tool` functions and LangChain tools are added to the built-in tools; names of built-in
    tools choose which of those are offered.
    `system`: replaces the instructions that the model is given.
    `policy`: "ask", "edit", "allow", "deny", "plan", or an `ak.Policy`.
    `budget`: an `ak.Budget` for each run. `conversation_budget`: one for all runs of the conversation together.
    `timeouts`: seconds that a call of a tool may run, by the tool's name: `{"run_python": 600}`.
    `effort`: "low", "medium" or "high": how much the model reasons, where it has a choice.
    Raises `ConfigurationError` and `ToolDeclarationError`.
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
    ) -> None:
        if model is not None and not isinstance(model, str) and not callable(getattr(model, "stream", None)):
            raise ConfigurationError(f"A model is a name or an object with `stream`, not {type(model).__name__!r}.")
        self._kernel_state = kernel_state()
        self.conversation_id = new_conversation_id()
        self.model = model
        self.tools = with_timeouts(offered_tools(self._kernel_state.shell, tools), timeouts or {})
        self.system = system
        self.policy = None if policy is None else as_policy(policy)
        if self.policy is not None:
            check_rules(self.policy.rules, [tool.declaration for tool in self.tools])
        self.budget = budget or Budget()
        self.conversation_budget = conversation_budget or Budget()
        self.effort = as_effort(effort)

    def start(self, prompt: str, approvals: Sequence[Decision] | None = None) -> Run:
        """Start a run and return at once. `await run` or `run.wait()` holds the cell until it ends.

        `approvals` answers the calls where nobody is there to ask: `True`, `(False, "why")`, or a
        `ScriptedDecision` each. Without them such calls are denied. Raises `ConfigurationError`.
        """
        if not prompt.strip():
            raise ConfigurationError("The prompt is empty. Say what the agent should do.")
        host = host_for(self._kernel_state, self.model)
        cell = request_of(self._kernel_state.shell)
        if cell is not None and self._kernel_state.begins_anew(cell, self.conversation_id):
            self.conversation_id = new_conversation_id()
        replaces = () if cell is None else self._kernel_state.replaced_by(cell, self.conversation_id)
        spec = RunSpec(
            run_id=new_run_id(),
            prompt=prompt,
            model=self.model if isinstance(self.model, str) else None,
            tools=tuple(tool.declaration for tool in self.tools),
            policy=None if self.policy is None else self.policy.default,
            rules=() if self.policy is None else tuple(self.policy.rules),
            system=self.system,
            budget=self.budget.limits(),
            conversation_budget=self.conversation_budget.limits(),
            effort=self.effort,
            replaces=replaces,
            continues=self._kernel_state.continued_by(self.conversation_id, replaces),
            cell_id=cell.cell_id if cell is not None else None,
        )
        state = RunState(
            self._kernel_state,
            host,
            spec,
            self.conversation_id,
            self.tools,
            as_decisions(approvals),
            self.model,
            cell,
        )
        self._begin(state)
        return Run(state)

    def _begin(self, run: RunState) -> None:
        """Whole, or not at all: an interrupt that comes meanwhile stops the run that was begun."""
        notice = Notice(passes_on=False)
        with notice.taken():
            self._kernel_state.add_run(run)
            run.host.begin(run)
            self._kernel_state.cells.begun(run)
        if notice.interrupted:
            run.end_interrupted()
            raise RunInterrupted

    def run(self, prompt: str, approvals: Sequence[Decision] | None = None) -> Run:
        """Start a run and wait for it; an interrupt cancels it. See `start`."""
        return wait_or_cancel(self.start(prompt, approvals))


def wait_or_cancel(run: Run) -> Run:
    """Wait for a run that its cell is about: an interrupt of the cell is one of the run."""
    try:
        return run.wait()
    except KeyboardInterrupt:
        state_of(run).stop("interrupted")
        raise


def last_run() -> Run | None:
    """The run that was started last in this kernel, by whatever agent."""
    state = kernel_state().last_run
    return Run(state) if state is not None else None


def runs() -> list[Run]:
    """The runs of this kernel, of whatever agent, the oldest first: all that are open, and the last that have ended."""
    return [Run(state) for state in kernel_state().runs()]


def host_for(state: KernelState, model: Any) -> Host:
    """The server's runtime, or one in this process where there is no such server or the model is an object."""
    by_name = model is None or isinstance(model, str)
    served = by_name and (is_served(state.shell) or is_served_from_afar(state))
    return _served(state) if served else _embedded(state)


@functools.cache
def _served(state: KernelState) -> Host:
    from agent_kernel.notebook.hosts.served import ServedHost

    return ServedHost(state)


@functools.cache
def _embedded(state: KernelState) -> Host:
    from agent_kernel.notebook.hosts.embedded import EmbeddedHost

    return EmbeddedHost(state)
