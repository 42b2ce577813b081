"""What a run costs beside SQL, counted: tasks, thread hops, and what is worked out again each time."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Generator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_kernel.models.known import capabilities_by_name
from agent_kernel.runtime import graph
from agent_kernel.testing import say
from agent_kernel.tools import arguments
from tests.core.models.model_fixtures import connected, turn_of
from tests.counts.counting import CountedModel, CountedRuntime


@pytest.fixture
async def asked(tmp_path: Path) -> AsyncIterator[CountedRuntime]:
    """A runtime whose first run is over, and whose runs ask for one approval each."""
    counted = await CountedRuntime.open(tmp_path / "log.sqlite", CountedModel(calls=1))
    await counted.run("ask")
    yield counted
    await counted.runtime.aclose()


class TaskCounter:
    """Counts the tasks that are made in an event loop while it is entered."""

    def __init__(self) -> None:
        self.count = 0
        self._loop = asyncio.get_running_loop()

    def __enter__(self) -> "TaskCounter":
        self._loop.set_task_factory(self._make)
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.set_task_factory(None)

    def _make(
        self, loop: asyncio.AbstractEventLoop, work: Generator[Any, None, Any] | Coroutine[Any, Any, Any], **named: Any
    ) -> "asyncio.Task[Any]":
        self.count += 1
        return asyncio.Task(work, loop=loop, **named)


async def test_a_run_with_an_approval_is_fourteen_tasks(asked: CountedRuntime) -> None:
    """LangGraph makes several for each node of each superstep; one call needs no node of its own."""
    with TaskCounter() as tasks:
        await asked.run("ask")
    assert tasks.count <= 14


async def test_one_call_that_waits_for_a_person_is_no_node(
    asked: CountedRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes: list[object] = []
    monkeypatch.setattr(graph, "run_tool_calls", lambda _, calls: nodes.append(calls))
    await asked.run("ask")
    assert nodes == []


async def test_a_run_begins_with_one_hop_to_a_thread(asked: CountedRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    hops: list[object] = []
    to_thread = asyncio.to_thread

    async def counted(work: Any, *arguments: Any) -> Any:
        hops.append(work)
        return await to_thread(work, *arguments)

    monkeypatch.setattr(asyncio, "to_thread", counted)
    await asked.run("ask")
    assert len(hops) <= 1


async def test_the_address_of_requests_is_joined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    joined: list[object] = []
    join = httpx2.URL.join

    def counted(url: httpx2.URL, path: Any) -> httpx2.URL:
        joined.append(path)
        return join(url, path)

    monkeypatch.setattr(httpx2.URL, "join", counted)
    async with connected(say("one"), say("two"), say("three")) as (_, model):
        for _ in range(3):
            await turn_of(model)
    assert len(joined) == 1


def test_what_a_name_says_of_a_model_is_looked_at_once() -> None:
    first = capabilities_by_name("gpt-4o-counted", "https://models.example")
    assert capabilities_by_name("gpt-4o-counted", "https://models.example") is first


@pytest.mark.parametrize(
    ("raw", "written"),
    [
        ('{"x":"plain"}', '{"x":"plain"}'),
        ('{"x":"\\ud83d"}', '{"x":"\ufffd"}'),
        ('{"x":"\ud83d"}', '{"x":"\ufffd"}'),
        ('"{\\"x\\": \\"\\\\ud83d\\"}"', '{"x":"\ufffd"}'),
    ],
    ids=["plain", "half an emoji escaped", "half an emoji", "escaped in a string"],
)
def test_only_arguments_that_may_hold_half_an_emoji_are_looked_through(
    monkeypatch: pytest.MonkeyPatch, raw: str, written: str
) -> None:
    looked: list[object] = []
    look = arguments._without_surrogates

    def counted(value: dict[str, Any]) -> dict[str, Any]:
        looked.append(value)
        return look(value)

    monkeypatch.setattr(arguments, "_without_surrogates", counted)
    assert arguments.canonical(arguments.parse(raw)) == written
    assert bool(looked) == (raw != written)
