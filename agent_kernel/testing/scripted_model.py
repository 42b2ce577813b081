"""A model that plays a test's script, and fails if the requests do not match it; shorthands for its turns; and a clock
that a test advances."""

import asyncio
import heapq
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import aclosing
from dataclasses import replace
from itertools import count
from types import TracebackType
from typing import Any, Self

from agent_kernel.models.base import (
    Clock,
    ModelFacts,
    ModelItem,
    ModelRequest,
    ModelTurn,
    ReasoningDelta,
    RequestedCall,
    TextDelta,
    TokenUsage,
    ToolCallDelta,
)

ScriptedTurn = ModelTurn | Exception | Callable[[ModelRequest], ModelTurn | AsyncGenerator[ModelItem, None]]
"""A turn, an error to raise, or a function of the request that returns a turn.

An async generator function is also allowed: its items are streamed as they come, so that a turn may wait, break off
with an error or never end.
"""


class ScriptMismatch(AssertionError):
    """A turn was requested that is not in the script, or one in the script was not requested."""


class ScriptedModel:
    """Plays `turns` one after another, with text in odd pieces.

    `requests` has every request as it was when it was made. Leaving the context manager, or `assert_consumed()`, raises
    `ScriptMismatch` if a turn was not requested or a request had no turn. `repeat=True` begins the turns again instead
    of failing. `summary` answers the requests without tools that summarise a long conversation; they are in
    `summary_requests` and take no turn.
    """

    def __init__(
        self,
        turns: Iterable[ScriptedTurn],
        *,
        name: str = "scripted",
        recorded: bool = False,
        facts: ModelFacts | None = None,
        repeat: bool = False,
        summary: ScriptedTurn | None = None,
    ) -> None:
        self._turns = list(turns)
        self._repeat = repeat
        self._summary = summary
        self.name = name
        self.recorded = recorded
        self.facts = facts or ModelFacts()
        self._unexpected = 0
        self.requests: list[ModelRequest] = []
        self.summary_requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
        scripted = self._next(replace(request, messages=tuple(request.messages), tools=tuple(request.tools)))
        if isinstance(scripted, Exception):
            raise scripted
        said = scripted if isinstance(scripted, ModelTurn) else scripted(request)
        if not isinstance(said, ModelTurn):
            async with aclosing(said):
                async for item in said:
                    yield item
            return
        for item in deltas(said):
            yield item
        yield said

    def _next(self, request: ModelRequest) -> ScriptedTurn:
        if self._summary is not None and not request.tools:
            self.summary_requests.append(request)
            return self._summary
        taken = len(self.requests) - self._unexpected
        self.requests.append(request)
        if self._repeat:
            return self._turns[taken % len(self._turns)]
        if taken >= len(self._turns):
            self._unexpected += 1
            raise ScriptMismatch(self._describe_unexpected(request))
        return self._turns[taken]

    async def aclose(self) -> None:
        pass

    def assert_consumed(self) -> None:
        if self._unexpected:
            raise ScriptMismatch(f"The model was asked for {self._unexpected} more turns than were written.")
        left = len(self._turns) - len(self.requests)
        if left > 0:
            raise ScriptMismatch(f"{left} of {len(self._turns)} written turns were never asked for.")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.assert_consumed()

    def _describe_unexpected(self, request: ModelRequest) -> str:
        last = request.messages[-1] if request.messages else {}
        said = str(last.get("content"))[:200]
        return (
            f"All {len(self._turns)} written turns were said, and the loop asks for another. "
            f"Its last message, of role {last.get('role')!r}: {said}"
        )


def deltas(turn: ModelTurn) -> list[ModelItem]:
    """The deltas of a turn, its text in pieces of one, two, three, five... characters."""
    items: list[ModelItem] = [ReasoningDelta(piece) for piece in odd_pieces(turn.reasoning)]
    items += [TextDelta(piece) for piece in odd_pieces(turn.content)]
    items += [ToolCallDelta(index, one.name, one.id) for index, one in enumerate(turn.tool_calls)]
    return items


def odd_pieces(text: str) -> list[str]:
    """`text` cut at places unrelated to word boundaries."""
    sizes = (1, 2, 3, 5, 8, 13, 1, 4)
    pieces: list[str] = []
    start = 0
    while start < len(text):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(text[start : start + size])
        start += size
    return pieces


def say(text: str, *, reasoning: str = "", usage: tuple[int, int] = (0, 0)) -> ModelTurn:
    """A turn that answers and ends the run. `usage` is tokens in and tokens out."""
    return ModelTurn(content=text, reasoning=reasoning, usage=TokenUsage(*usage))


def call(tool_name: str, /, *, call_id: str = "", **arguments: Any) -> ModelTurn:
    """A turn that asks for one call: `call("run_python", code="1 + 1")`."""
    return ModelTurn(content="", tool_calls=(requested(tool_name, arguments, call_id=call_id),))


def calls(*turns: ModelTurn, text: str = "", reasoning: str = "", usage: tuple[int, int] = (0, 0)) -> ModelTurn:
    """A turn that asks for several calls at once: `calls(call("a"), call("b"), text="Let me look.")`."""
    return ModelTurn(
        content=text or "".join(turn.content for turn in turns),
        reasoning=reasoning,
        tool_calls=tuple(one for turn in turns for one in turn.tool_calls),
        usage=TokenUsage(*usage),
    )


def requested(tool_name: str, arguments: dict[str, Any] | str, *, call_id: str = "") -> RequestedCall:
    """One call. Arguments given as text are sent as they are, so they may be malformed."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return RequestedCall(id=call_id, name=tool_name, arguments=text)


class VirtualClock(Clock):
    """A clock for retries and budgets. By default a sleep ends at once and advances the time; with `auto=False` it
    waits for `advance`. `slept` lists the seconds of all sleeps."""

    def __init__(self, start: float = 1_750_000_000.0, *, auto: bool = True) -> None:
        self._now = start
        self._auto = auto
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self.slept: list[float] = []

    def now(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if self._auto:
            self._now += max(0.0, seconds)
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), future))
        await future

    @property
    def sleepers(self) -> int:
        """How many sleeps are waiting for `advance`."""
        return sum(not future.done() for _, _, future in self._sleepers)

    def advance(self, seconds: float) -> None:
        """Advance the time and wake, in order, every sleep that is over by then."""
        self._now += seconds
        while self._sleepers and self._sleepers[0][0] <= self._now:
            future = heapq.heappop(self._sleepers)[2]
            if not future.done():
                future.set_result(None)
