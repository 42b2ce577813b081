"""A hundred runs at once on one server share it fairly: counted in calls, decisions and frames, not in seconds."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from agent_kernel.models.base import ModelItem, ModelRequest, ModelTurn, TextDelta
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.events import server_event_adapter
from agent_kernel.protocol.ids import new_run_id
from agent_kernel.protocol.vocabulary import Approval
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.tools.declaration import ToolDeclaration
from tests.core.runtime.runtime_fixtures import FunctionExecutor
from tests.counts.counting import CountedModel, CountedRuntime

pytestmark = pytest.mark.slow
RUNS = 100
STEPS = 5
AHEAD = 3
"""The most steps, or frames of an answer, that a run may be ahead of another one that has as much to do: on a machine
with nothing else to do it is one or two."""
OVERTAKEN = 8
"""The most decisions that may take effect before an earlier one."""


class TogetherModel(CountedModel):
    """Its first answers begin when all runs have asked."""

    def __init__(self, calls: int) -> None:
        super().__init__(calls, tokens=1)
        self._all = asyncio.Barrier(RUNS)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
        if not any(message["role"] == "tool" for message in request.messages):
            await self._all.wait()
        async for item in super().stream(request):
            yield item


class TalkativeModel(CountedModel):
    """Its answers begin when all runs have asked, and end when the people have heard enough, because how many words
    come in a frame is a matter of time. It lets others go on after each word."""

    def __init__(self) -> None:
        super().__init__()
        self._all = asyncio.Barrier(RUNS)
        self.enough: Callable[[], bool] = lambda: False

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
        await self._all.wait()
        words = 0
        while not self.enough():
            words += 1
            yield TextDelta("word ")
            await asyncio.sleep(0)
        yield ModelTurn(content="word " * words, usage=self.usage)


class Crowd:
    """A hundred people with a run each, who approve each call as soon as they hear of it."""

    def __init__(self, counted: CountedRuntime, approval: Approval = "ask") -> None:
        self._runtime = counted.runtime
        self._tool = ToolDeclaration("probe", "Probe.", {"type": "object", "properties": {}}, approval=approval)
        self.decided: list[tuple[int, int]] = []
        """The calls, by run and number, in the order in which they were approved."""
        self.entered: list[tuple[int, int]] = []
        self.frames: list[int] = []
        """The runs, in the order in which their clients got a piece of their answers."""
        self._heard = Counter(dict.fromkeys(range(RUNS), 0))

    def fewest_frames(self) -> int:
        return min(self._heard.values())

    async def go(self) -> None:
        async with asyncio.timeout(120):
            await asyncio.gather(*map(self._person, range(RUNS)))

    async def _person(self, number: int) -> None:
        def act(*_: object) -> str:
            self.entered.append((number, sum(run == number for run, _ in self.entered)))
            return str(self.entered[-1])

        conversation = await self._runtime.create_conversation()
        frames = conversation.subscribe()
        spec = RunSpec(run_id=new_run_id(), prompt="Go on.", tools=(self._tool,))
        handle = await conversation.start_run(spec, FunctionExecutor(act=act))
        async for frame in frames:
            event = server_event_adapter.validate_json(frame)
            if event.type == "approval_request":
                self.decided.append((number, sum(run == number for run, _ in self.decided)))
                await conversation.route_decision(event.approval_id, Decision(approved=True))
            elif event.type == "token":
                self.frames.append(number)
                self._heard[number] += 1
            elif event.type == "complete":
                break
        frames.close()
        await handle.wait()


def most_ahead(order: list[int]) -> int:
    """How much the run that had most had more than the one that had least, at the worst moment."""
    had = Counter(dict.fromkeys(range(RUNS), 0))
    worst = 0
    for run in order:
        had[run] += 1
        worst = max(worst, had[run] - min(had.values()))
    return worst


async def test_decisions_take_effect_in_order_and_no_run_is_far_ahead_of_another(tmp_path: Path) -> None:
    counted = await CountedRuntime.open(tmp_path / "log.sqlite", TogetherModel(STEPS))
    crowd = Crowd(counted)
    await crowd.go()
    await counted.runtime.aclose()
    place = {call: number for number, call in enumerate(crowd.entered)}
    order = [place[call] for call in crowd.decided]
    overtaken = [sum(later < own for later in order[number:]) for number, own in enumerate(order)]
    assert len(order) == RUNS * STEPS
    assert max(overtaken) <= OVERTAKEN
    assert most_ahead([run for run, _ in crowd.entered]) <= AHEAD


async def test_no_run_whose_policy_allows_its_steps_is_far_ahead_of_another(tmp_path: Path) -> None:
    counted = await CountedRuntime.open(tmp_path / "log.sqlite", TogetherModel(STEPS))
    crowd = Crowd(counted, "allow")
    await crowd.go()
    await counted.runtime.aclose()
    assert len(crowd.entered) == RUNS * STEPS
    assert most_ahead([run for run, _ in crowd.entered]) <= AHEAD


async def test_answers_that_stream_at_the_same_time_reach_their_clients_in_step(tmp_path: Path) -> None:
    model = TalkativeModel()
    counted = await CountedRuntime.open(tmp_path / "log.sqlite", model)
    crowd = Crowd(counted)
    model.enough = lambda: crowd.fewest_frames() > 2 * AHEAD  # with fewer nobody could be further ahead
    await crowd.go()
    await counted.runtime.aclose()
    assert most_ahead(crowd.frames) <= AHEAD
