"""The calls of a run: those of its step, what each of them waits for, and the tasks that carry them out."""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from agent_kernel.protocol.calls import Outcome
from agent_kernel.protocol.views import ImageRefs, ToolCallView
from agent_kernel.runtime.state.waits import Broker
from agent_kernel.tools.executor import CallExecutor


@dataclass(slots=True)
class Step:
    """The calls of the model's last turn, and their results."""

    calls: Sequence[str] = ()
    """Ids in the model's order; their tool messages are still to be made."""
    results: dict[str, str] = field(default_factory=dict)
    """The results, for the model, of the calls that ran to their end."""
    images: dict[str, ImageRefs] = field(default_factory=dict)
    """The pictures that those calls showed."""


@dataclass(frozen=True, slots=True)
class Interruption:
    """Why Agent Kernel itself has interrupted a call."""

    reason: str
    """A sentence, for the model and for people."""
    failed: bool = False
    """Whether the call ends as an error, because it took too long itself; else it ends as cancelled."""


@dataclass(slots=True)
class Execution:
    """A call that the executor has."""

    approval_id: str
    task: asyncio.Task[Outcome]
    executor: CallExecutor
    interruption: Interruption | None = None
    """Set by `cut_short`; the first reason stays."""

    def interrupted_for(self, interruption: Interruption | None) -> None:
        self.interruption = self.interruption or interruption


class RunCalls:
    """Steps begin and end in `turns`; the rest is changed by `tool_calls`, and by `runs` where a run is stopped."""

    def __init__(
        self, step: Sequence[str] = (), waiting: Iterable[ToolCallView] = (), unknown: Collection[str] = ()
    ) -> None:
        """`step` has the ids of a step that the run goes on with, `waiting` its calls that wait for a decision, and
        `unknown` the digests of the conversation's calls whose outcome is unknown."""
        self.turn = asyncio.Semaphore(1)
        """Held by the call that runs: the kernel runs one at a time, and what waits for it uses up no time limit."""
        self._step = Step(step)
        self._decisions: Broker[ToolCallView] = Broker()
        self._answers: Broker[Outcome] = Broker()
        self._waiting = {call.approval_id: call for call in waiting}
        self._executing: dict[str, Execution] = {}
        self._unknown = set(unknown)

    # The step.

    @property
    def of_step(self) -> Sequence[str]:
        """The ids of the step's calls, in the model's order."""
        return self._step.calls

    def begin_step(self, tool_call_ids: Sequence[str]) -> None:
        self._step = Step(tool_call_ids)

    def end_step(self) -> Step:
        ended, self._step = self._step, Step()
        return ended

    def add_result(self, tool_call_id: str, result: str, images: ImageRefs) -> None:
        self._step.results[tool_call_id] = result
        if images:
            self._step.images[tool_call_id] = images

    # Decisions, and answers of pages.

    @property
    def undecided(self) -> int:
        """The number of tasks that wait for a decision."""
        return len(self._decisions.waiting())

    def expect_decision(self, approval_id: str) -> "asyncio.Future[ToolCallView]":
        return self._decisions.expect(approval_id)

    @contextmanager
    def waiting(self, call: ToolCallView) -> Iterator[None]:
        """Marks a call as waiting for a decision."""
        self._waiting[call.approval_id] = call
        try:
            yield
        finally:
            self._waiting.pop(call.approval_id, None)

    def waiting_call(self, approval_id: str) -> ToolCallView | None:
        """A call that waits for a decision, as it was asked about."""
        return self._waiting.get(approval_id)

    def resolve_decision(self, call: ToolCallView) -> None:
        """Wake the task of a call that was decided on, or ended."""
        self._waiting.pop(call.approval_id, None)
        self._decisions.resolve(call.approval_id, call)

    @property
    def unanswered(self) -> list[str]:
        """The calls that wait for a page's answer."""
        return self._answers.waiting()

    def expect_answer(self, tool_call_id: str) -> "asyncio.Future[Outcome]":
        return self._answers.expect(tool_call_id)

    def answer(self, tool_call_id: str, outcome: Outcome) -> bool:
        """False where the call waits for no answer."""
        return self._answers.resolve(tool_call_id, outcome)

    # Calls that the executor has.

    @contextmanager
    def executing(self, tool_call_id: str, execution: Execution) -> Iterator[None]:
        """Marks a call as being executed."""
        self._executing[tool_call_id] = execution
        try:
            yield
        finally:
            del self._executing[tool_call_id]

    def execution(self, tool_call_id: str) -> Execution | None:
        return self._executing.get(tool_call_id)

    def executions(self) -> list[Execution]:
        return list(self._executing.values())

    def running(self) -> list[str]:
        return list(self._executing)

    # After their end.

    def add_unknown(self, digest: str) -> None:
        self._unknown.add(digest)

    def may_have_run(self, digest: str) -> bool:
        """Whether the conversation has a call with these arguments whose outcome is unknown."""
        return digest in self._unknown
