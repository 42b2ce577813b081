"""After a restart: nothing lost, nothing twice. Each test opens the log of a runtime that was torn down in the
middle."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.errors import CarriedOutElsewhere
from agent_kernel.models.base import ModelItem, ModelRequest, TextDelta, ToolCallDelta
from agent_kernel.protocol.events import (
    ApprovalResponseEvent,
    CompleteEvent,
    MessageEvent,
    TokenEvent,
    ToolCompleteEvent,
    ToolStartEvent,
    ToolStateEvent,
)
from agent_kernel.protocol.ids import new_run_id
from agent_kernel.runtime.runs import lifecycle
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.testing import ScriptedModel, call, calls, say
from tests.core.runtime.runtime_fixtures import RUN_PYTHON, FunctionExecutor, Stage, Stages, second_life, states
from tests.faults import checks

ONE = call("run_python", code="1", call_id="a")
TWO = calls(ONE, call("run_python", code="2", call_id="b"))


async def endless(*_: Any) -> None:
    await asyncio.Event().wait()


@pytest.fixture
def begun(stages: Stages, tmp_path: Path) -> Any:
    """The first life: its calls never end."""

    async def begin(*turns: Any) -> Stage:
        return await stages(list(turns), path=tmp_path / "log.sqlite", executor=FunctionExecutor(endless))

    return begin


async def test_a_pending_approval_is_pending_again_and_can_be_given(begun: Any) -> None:
    before = await begun(ONE)
    await before.asking()
    async with second_life(before, say("Done.")) as again:
        assert [one.state for one in await again.calls()] == ["awaiting_approval"]
        await again.approve()
        result = await again.handles[0].wait()
    assert [ran.tool_call_id for ran in again.executor.ran] == ["a"]
    assert (result.text, again.roles()) == ("Done.", ["system", "user", "assistant", "tool"])


async def test_what_was_executing_is_unknown_is_not_run_again_and_its_sibling_still_waits(begun: Any) -> None:
    before = await begun(TWO)
    await before.asking(2)
    await before.approve(1)
    await before.until(lambda: before.of(ToolStartEvent))
    async with second_life(before, say("I see.")) as again:
        assert [one.state for one in await again.calls()] == ["unknown", "awaiting_approval"]
        await again.approve(2)
        result = await again.handles[0].wait()
    assert [ran.tool_call_id for ran in again.executor.ran] == ["b"]
    assert states(result) == {"a": "unknown", "b": "success"}
    assert again.told()[0].startswith("Outcome unknown. The server restarted")


async def test_an_approved_call_that_had_not_started_starts_once(begun: Any) -> None:
    before = await begun(TWO)
    await before.start(policy="allow")
    await before.until(lambda: before.of(ToolStartEvent) and len(before.of(ApprovalResponseEvent)) == 2)
    async with second_life(before, say("Done.")) as again:
        result = await again.handles[0].wait()
    assert [ran.tool_call_id for ran in again.executor.ran] == ["b"]
    assert states(result) == {"a": "unknown", "b": "success"}


async def test_a_run_whose_answer_is_written_ends_with_it_and_asks_nobody_again(
    begun: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await begun(ONE, say("It is 1."))
    before.executor.act = lambda *_: "1"
    monkeypatch.setattr(lifecycle, "_end", endless)
    await before.start(policy="allow")
    await before.until(lambda: [one for one in before.of(MessageEvent) if one.content == "It is 1."])
    monkeypatch.undo()
    async with second_life(before) as again:
        result = await again.handles[0].wait()
    assert (result.run.status, result.text, len(result.tool_calls)) == ("complete", "It is 1.", 1)
    assert again.model.requests == []


async def test_where_the_kernel_is_gone_every_call_ends_and_the_next_prompt_finds_no_orphan(begun: Any) -> None:
    before = await begun(TWO)
    await before.start()
    queued = await before.start("later")
    await before.requests(2)
    await before.approve(1)
    await before.until(lambda: before.of(ToolStartEvent))
    async with second_life(before, say("I see."), kernel=False) as again:
        view = await again.conversation.view()
        assert (again.handles, [one.state for one in view.tool_calls]) == ([], ["unknown", "cancelled"])
        assert [(run.status, run.error and run.error.code) for run in view.runs] == [("error", "KERNEL_DIED")] * 2
        assert view.runs[1].run_id == queued.run_id
        run_id = await again.conversation.send_message("And now?")
        await again.until(lambda: [one for one in again.of(CompleteEvent) if one.run_id == run_id])
    assert again.roles() == ["system", "user", "assistant", "tool", "tool", "user"]


async def half_an_answer(request: ModelRequest) -> AsyncGenerator[ModelItem, None]:
    yield TextDelta("Half an ans")
    await endless()


async def test_an_answer_that_was_cut_off_is_taken_back_and_asked_for_again(begun: Any) -> None:
    before = await begun(half_an_answer)
    await before.start()
    [token] = await before.until(lambda: before.of(TokenEvent))
    async with second_life(before, say("A whole answer.")) as again:
        result = await again.handles[0].wait()
        taken_back = next(one for one in again.of(MessageEvent) if one.message_id == token.message_id)
    assert (taken_back.content, result.text) == ("", "A whole answer.")
    assert again.roles() == ["system", "user"]


async def half_a_call(request: ModelRequest) -> AsyncGenerator[ModelItem, None]:
    yield ToolCallDelta(0, "run_python", "half")
    await endless()


async def test_the_card_of_a_call_that_the_model_was_writing_ends(begun: Any, tmp_path: Path) -> None:
    before = await begun(half_a_call)
    await before.start()
    await before.until(lambda: before.of(ToolStateEvent))
    killed = tmp_path / "killed.sqlite"
    with sqlite3.connect(before.path) as source, sqlite3.connect(killed) as copy:
        source.backup(copy)  # the log as a killed process leaves it: an orderly end would write the card's
    before.path = killed
    async with second_life(before, say("A whole answer.")) as again:
        await again.handles[0].wait()
        [ended] = await again.until(lambda: again.of(ToolCompleteEvent))
    assert (ended.tool_call_id, ended.state) == ("half", "cancelled")


async def test_a_queued_run_goes_on_after_the_one_before_it(begun: Any) -> None:
    before = await begun(ONE)
    await before.asking()
    await before.start("second")
    async with second_life(before, say("One."), say("Two.")) as again:
        await again.deny()
        assert [(await handle.wait()).text for handle in again.handles] == ["One.", "Two."]


async def test_a_run_that_another_version_wrote_ends_and_keeps_no_other_from_going_on(begun: Any) -> None:
    before = await begun(ONE)
    await before.asking()
    await before.start("second")
    with sqlite3.connect(before.path) as sql:
        sql.execute("UPDATE runs SET spec = '{\"of another version\": 1' WHERE number = 1")
    sql.close()
    async with second_life(before, say("Done.")) as again:
        assert (await again.handles[0].wait()).text == "Done."
        view = await again.conversation.view()
    assert [run.status for run in view.runs] == ["error", "complete"]
    assert [one.state for one in view.tool_calls] == ["cancelled"]
    assert checks.orphans(again.model.requests[0].messages) == []


def names_in(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


async def test_a_second_server_on_the_same_log_leaves_the_first_ones_runs_alone(stages: Stages, tmp_path: Path) -> None:
    first = await stages([ONE, say("Done.")], path=tmp_path / "log.sqlite")
    handle, [request] = await first.asking()
    second = await stages([], path=tmp_path / "log.sqlite")

    async def no_kernel(*_: Any) -> None:
        return None

    recovered = await second.runtime.recover(no_kernel)
    assert (recovered.continued, recovered.ended) == ([], [])
    await second.close()
    await first.approve(request)
    assert (await handle.wait()).run.status == "complete"
    await first.close()
    assert names_in(tmp_path) == ["log.sqlite", "log.sqlite-head"]


async def test_of_two_servers_that_start_a_run_of_one_conversation_at_once_one_wins(
    stages: Stages, tmp_path: Path
) -> None:
    script = ScriptedModel([ONE, say("Done.")])  # for either: a second run would find nothing to say
    servers = [await stages(script, path=tmp_path / "log.sqlite", executor=FunctionExecutor()) for _ in range(2)]
    conversation_id = servers[0].conversation.conversation_id
    executor = servers[0].executor

    async def start(one: Stage) -> Any:
        spec = RunSpec(run_id=new_run_id(), prompt="Go", tools=(RUN_PYTHON,), policy="allow")
        return await (await one.runtime.conversation(conversation_id)).start_run(spec, executor)

    started = await asyncio.gather(*map(start, servers), return_exceptions=True)
    [handle] = [one for one in started if not isinstance(one, BaseException)]
    assert [type(one) for one in started if one is not handle] == [CarriedOutElsewhere]
    assert (await handle.wait()).run.status == "complete"
    assert [ran.tool_call_id for ran in executor.ran] == ["a"]
    script.assert_consumed()
