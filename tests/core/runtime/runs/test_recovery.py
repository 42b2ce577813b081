"""After a restart: nothing lost, nothing twice. Each test opens the log of a runtime that was torn down in the
middle."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import orjson
import pytest

from agent_kernel.errors import NoModelError
from agent_kernel.models.base import Model, ModelItem, ModelRequest, TextDelta, ToolCallDelta
from agent_kernel.protocol.calls import Outcome
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.events import ApprovalResponseEvent, MessageEvent, TokenEvent, ToolStartEvent, ToolStateEvent
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.runs import lifecycle
from agent_kernel.runtime.runtime import Runtime
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.testing import ScriptedModel, call, calls, say
from agent_kernel.tools.executor import ToolExecutor
from tests.core.runtime.runtime_fixtures import FunctionExecutor, OneModel, Stages, second_life, stage
from tests.core.tools.builtin.pictures import SEES, png_bytes, size_of
from tests.faults import checks


class Endless(FunctionExecutor):
    """Calls that never end."""

    def __init__(self) -> None:
        super().__init__(self._forever)

    async def _forever(self, call: Any, emit: Any) -> Outcome:
        await asyncio.Event().wait()
        raise AssertionError


async def test_a_pending_approval_is_pending_again_and_can_be_given(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    before = await stage(ScriptedModel([call("run_python", code="1", call_id="a")]), path)
    await before.start()
    [request] = await before.requests()
    executor = FunctionExecutor()
    with ScriptedModel([say("Done.")]) as model:
        async with second_life(path, model, before, executor) as (conversation, [handle]):
            assert [c.state for c in (await conversation.view()).tool_calls] == ["awaiting_approval"]
            await conversation.route_decision(request.approval_id, Decision(approved=True, digest=request.digest))
            result = await handle.wait()
    assert [ran.tool_call_id for ran in executor.ran] == ["a"]
    assert result.text == "Done."
    assert [m["role"] for m in model.requests[0].messages] == ["system", "user", "assistant", "tool"]


async def test_what_was_executing_is_unknown_is_not_run_again_and_its_sibling_still_waits(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    turn = calls(call("run_python", code="1", call_id="a"), call("run_python", code="2", call_id="b"))
    before = await stage(ScriptedModel([turn]), path, Endless())
    await before.start()
    first, second = await before.requests(2)
    await before.conversation.route_decision(first.approval_id, Decision(approved=True))
    await before.until(lambda: before.of(ToolStartEvent))
    executor = FunctionExecutor()
    with ScriptedModel([say("I see.")]) as model:
        async with second_life(path, model, before, executor) as (conversation, [handle]):
            assert [c.state for c in (await conversation.view()).tool_calls] == ["unknown", "awaiting_approval"]
            await conversation.route_decision(second.approval_id, Decision(approved=True))
            result = await handle.wait()
    assert [ran.tool_call_id for ran in executor.ran] == ["b"]
    assert [c.state for c in result.tool_calls] == ["unknown", "success"]
    assert model.requests[0].messages[-2]["content"].startswith("Outcome unknown. The server restarted")


async def test_a_message_that_the_run_had_not_taken_has_its_id_and_its_pictures(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    before = await stage(ScriptedModel([call("run_python", code="1")]), path, Endless())
    await before.start(policy="allow")
    await before.until(lambda: before.of(ToolStartEvent))
    images = await before.conversation.keep_pictures([png_bytes(40, 30)])
    await before.conversation.send_message("What is this?", message_id="m-2", images=images)
    with ScriptedModel([say("A square.")], facts=SEES) as model:
        async with second_life(path, model, before, FunctionExecutor()) as (conversation, [handle]):
            await handle.wait()
            said = [one.message_id for one in (await conversation.view()).messages if one.content == "What is this?"]
    assert said == ["m-2"]
    [picture] = model.requests[0].images.values()
    assert size_of(picture) == (40, 30)


async def test_a_run_whose_answer_is_written_ends_with_it_and_asks_nobody_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(_: object) -> None:
        await asyncio.Event().wait()

    path = tmp_path / "log.sqlite"
    before = await stage(ScriptedModel([call("run_python", code="1"), say("It is 1.")]), path)
    monkeypatch.setattr(lifecycle, "_end", never)
    await before.start(policy="allow")
    await before.until(lambda: [one for one in before.of(MessageEvent) if one.content == "It is 1."])
    monkeypatch.undo()
    with ScriptedModel([]) as model:
        async with second_life(path, model, before, FunctionExecutor()) as (_, [handle]):
            result = await handle.wait()
    assert (result.run.status, result.text, len(result.tool_calls)) == ("complete", "It is 1.", 1)
    assert model.requests == []


async def test_an_approved_call_that_had_not_started_starts_once(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    turn = calls(call("run_python", code="1", call_id="a"), call("run_python", code="2", call_id="b"))
    before = await stage(ScriptedModel([turn]), path, Endless())
    await before.start(policy="allow")
    await before.until(lambda: before.of(ToolStartEvent) and len(before.of(ApprovalResponseEvent)) == 2)
    executor = FunctionExecutor()
    with ScriptedModel([say("Done.")]) as model:
        async with second_life(path, model, before, executor) as (_, [handle]):
            result = await handle.wait()
    assert [ran.tool_call_id for ran in executor.ran] == ["b"]
    assert [c.state for c in result.tool_calls] == ["unknown", "success"]


async def test_where_the_kernel_is_gone_every_call_ends_and_the_next_prompt_finds_no_orphan(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    turn = calls(call("run_python", code="1", call_id="a"), call("run_python", code="2", call_id="b"))
    before = await stage(ScriptedModel([turn]), path, Endless())
    await before.start()
    queued = await before.start("later")
    first, _ = await before.requests(2)
    await before.conversation.route_decision(first.approval_id, Decision(approved=True))
    await before.until(lambda: before.of(ToolStartEvent))
    with ScriptedModel([say("I see.")]) as model:
        async with second_life(path, model, before, None) as (conversation, handles):
            assert handles == []
            view = await conversation.view()
            assert [c.state for c in view.tool_calls] == ["unknown", "cancelled"]
            assert [run.status for run in view.runs] == ["error", "error"]
            assert view.runs[1].run_id == queued.run_id
            assert view.runs[0].error is not None
            assert view.runs[0].error.code == "KERNEL_DIED"
            subscription = conversation.subscribe()
            await conversation.send_message("And now?")
            async for frame in subscription:
                if '"type":"complete"' in frame:
                    subscription.close()
    roles = [message["role"] for message in model.requests[0].messages]
    assert roles == ["system", "user", "assistant", "tool", "tool", "user"]


async def half_an_answer(request: ModelRequest) -> AsyncGenerator[ModelItem, None]:
    yield TextDelta("Half an ans")
    await asyncio.Event().wait()


async def test_an_answer_that_was_cut_off_is_taken_back_and_asked_for_again(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    before = await stage(ScriptedModel([half_an_answer]), path)
    await before.start()
    [token] = await before.until(lambda: before.of(TokenEvent))
    with ScriptedModel([say("A whole answer.")]) as model:
        async with second_life(path, model, before, FunctionExecutor()) as (conversation, [handle]):
            subscription = conversation.subscribe(token.seq)
            result = await handle.wait()
            async for frame in subscription:
                if token.message_id in frame:
                    assert '"type":"message"' in frame
                    assert '"content":""' in frame
                    subscription.close()
    assert result.text == "A whole answer."
    assert [m["role"] for m in model.requests[0].messages] == ["system", "user"]


async def half_a_call(request: ModelRequest) -> AsyncGenerator[ModelItem, None]:
    yield ToolCallDelta(0, "run_python", "half")
    await asyncio.Event().wait()


async def test_the_card_of_a_call_that_the_model_was_writing_ends(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    before = await stage(ScriptedModel([half_a_call]), path)
    await before.start()
    [card] = await before.until(lambda: before.of(ToolStateEvent))
    killed = tmp_path / "killed.sqlite"
    with sqlite3.connect(path) as source, sqlite3.connect(killed) as copy:
        source.backup(copy)  # the log as a killed process leaves it: an orderly end would write the card's
    with ScriptedModel([say("A whole answer.")]) as model:
        async with second_life(killed, model, before, FunctionExecutor()) as (conversation, [handle]):
            await handle.wait()
            async for frame in conversation.subscribe(card.seq):
                if '"type":"tool_complete"' in frame:
                    break
    assert '"tool_call_id":"half"' in frame
    assert '"state":"cancelled"' in frame


async def test_a_queued_run_goes_on_after_the_one_before_it(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    before = await stage(ScriptedModel([call("run_python", code="1", call_id="a")]), path)
    await before.start("first")
    await before.start("second")
    [request] = await before.requests()
    with ScriptedModel([say("One."), say("Two.")]) as model:
        async with second_life(path, model, before, FunctionExecutor()) as (conversation, handles):
            await conversation.route_decision(request.approval_id, Decision(approved=False))
            texts = [(await handle.wait()).text for handle in handles]
    assert texts == ["One.", "Two."]


async def test_where_no_model_is_configured_any_more_the_run_ends_and_leaves_no_open_call(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    before = await stage(ScriptedModel([call("run_python", code="1", call_id="a")]), path)
    await before.start()
    await before.requests()
    await before.close()
    runtime = await Runtime.open(path, NoModels())

    async def executor_for(_: Conversation, __: RunSpec) -> ToolExecutor | None:
        return FunctionExecutor()

    [(_, _, handle)] = (await runtime.recover(executor_for)).continued
    result = await handle.wait()
    await runtime.aclose()
    assert result.run.status == "error"
    assert [c.state for c in result.tool_calls] == ["cancelled"]
    assert [message.role for message in result.messages] == ["user", "assistant", "tool"]


async def test_a_run_that_another_version_wrote_ends_and_keeps_no_other_from_going_on(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    before = await stage(ScriptedModel([call("run_python", code="1", call_id="a")]), path)
    await before.start("first")
    await before.requests()
    await before.start("second")
    with sqlite3.connect(path) as sql:
        sql.execute("UPDATE runs SET spec = '{\"of another version\": 1' WHERE number = 1")
    sql.close()
    with ScriptedModel([say("Done.")]) as model:
        async with second_life(path, model, before, FunctionExecutor()) as (conversation, [handle]):
            assert (await handle.wait()).text == "Done."
            view = await conversation.view()
    assert [run.status for run in view.runs] == ["error", "complete"]
    assert [c.state for c in view.tool_calls] == ["cancelled"]
    assert checks.orphans(model.requests[0].messages) == []


def names_in(directory: Path) -> list[str]:
    return [file.name for file in directory.iterdir()]


async def test_a_second_server_on_the_same_log_leaves_the_first_ones_runs_alone(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    with ScriptedModel([call("run_python", code="1"), say("Done.")]) as model:
        first = await stage(model, path)
        handle = await first.start()
        [request] = await first.requests()
        second = await Runtime.open(path, OneModel(model))

        async def no_kernel(_: Conversation, __: RunSpec) -> ToolExecutor | None:
            return None

        recovered = await second.recover(no_kernel)
        assert (recovered.continued, recovered.ended) == ([], [])
        await second.aclose()
        await first.conversation.route_decision(request.approval_id, Decision(approved=True))
        assert (await handle.wait()).run.status == "complete"
        await first.close()
    assert sorted(names_in(tmp_path)) == ["log.sqlite", "log.sqlite-head"]


async def test_a_new_conversation_takes_nothing_over_from_one_that_was_deleted(stages: Stages) -> None:
    one = await stages([say("Secret."), say("Fresh.")])
    await one.run("Old prompt")
    await one.runtime.delete_conversation(one.conversation.conversation_id)
    fresh = await one.runtime.create_conversation()
    handle = await fresh.start_run(RunSpec(run_id="fresh", prompt="New prompt"), None)
    await handle.wait()
    assert [m["role"] for m in one.model.requests[1].messages] == ["system", "user"]
    assert "Old prompt" not in str(one.model.requests[1].messages)
    async for frame in fresh.subscribe(0):
        assert orjson.loads(frame)["seq"] == 1
        break


class NoModels:
    def resolve(self, name: str | None, notebook_path: str | None = None) -> Model:
        raise NoModelError

    def secrets(self) -> tuple[str, ...]:
        return ()
