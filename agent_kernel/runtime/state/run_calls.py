"""The calls of a run: those of its step, what each of them waits for, and the tasks that carry them out."""

import asyncio
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from agent_kernel.protocol.calls import Outcome
from agent_kernel.protocol.views import ToolCallView
from agent_kernel.tools.executor import CallExecutor

T = TypeVar("T")


class Broker(Generic[T]):
    """Pending futures of what waits for a person or a client.

    The log holds the truth; a future only wakes the one task that waits. So a future is resolved after the decision was
    committed, a second resolve is harmless, and a lost future loses nothing.
    """

    def __init__(self) -> None:
        self._pending: dict[str, asyncio.Future[T]] = {}

    def expect(self, key: str) -> "asyncio.Future[T]":
        """The future that `resolve(key)` will resolve. Make it before the request is shown, so no answer is missed."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._pending[key] = future
        return future

    def resolve(self, key: str, value: T) -> bool:
        """Wake the task that waits for `key`. False if none does (any more)."""
        future = self._pending.pop(key, None)
        if future is None or future.done():
            return False
        future.set_result(value)
        return True

    def resolve_all(self, value: T) -> None:
        for key in self.waiting():
            self.resolve(key, value)

    def waiting(self) -> list[str]:
        """The keys that are waited for."""
        self._pending = {key: future for key, future in self._pending.items() if not future.done()}
        return list(self._pending)


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


class RunCalls:
    """Changed by `tool_calls`, and by `runs` where a run is stopped."""

    def __init__(self, step: Sequence[str] = (), unknown: Collection[str] = ()) -> None:
        """`unknown`: of the whole conversation."""
        self.of_step = step
        """The ids of the step's calls, in the model's order, until their tool messages are written."""
        self.turn = asyncio.Semaphore(1)
        """Held by the call that runs: the kernel runs one at a time, and what waits for it uses up no time limit."""
        self.decisions: Broker[ToolCallView] = Broker()
        """By approval id."""
        self.answers: Broker[Outcome] = Broker()
        """Of pages, by call id."""
        self.questions: dict[str, list[str]] = {}
        """The ids of the questions of calls that asked while they ran, even where nobody was there to be asked."""
        self.executions: dict[str, Execution] = {}
        """By call id, while the executor has them."""
        self.unknown = set(unknown)
        """The digests of calls that may have run: their outcome is unknown."""

    @property
    def waiting(self) -> int:
        """The number of tasks that wait for a decision or an answer."""
        return len(self.decisions.waiting()) + len(self.answers.waiting())

    @contextmanager
    def executing(self, tool_call_id: str, execution: Execution) -> Iterator[None]:
        """Marks a call as being executed."""
        self.executions[tool_call_id] = execution
        try:
            yield
        finally:
            del self.executions[tool_call_id]
