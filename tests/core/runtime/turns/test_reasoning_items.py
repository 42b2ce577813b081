"""What a model of the Responses API thought goes back to it in its place, through all that happens to a run, and is in
the log once. The service's double refuses reasoning that nothing follows, and calls without their outputs."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from agent_kernel.models.recordings.format import load
from agent_kernel.models.recordings.player import RecordedModel
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.events import RunEvent, TokenEvent
from agent_kernel.testing import call, calls, record, say
from agent_kernel.testing.fake_service import FakeService
from agent_kernel.testing.wire.reply import Reply, event_stream, failure
from agent_kernel.testing.wire.responses import item_events, reasoning
from tests.core.models.model_apis import APIS, RESPONSES, WireApi, each_api
from tests.core.models.model_fixtures import connected
from tests.core.runtime.runtime_fixtures import Stage, Stages, stage
from tests.core.runtime.turns.thinking_fixtures import Changing, look, run_code, think


def shape(server: FakeService, request: int = -1) -> list[str]:
    """A request's items in short: what was thought, asked for and said."""
    return [_short(item) for item in server.requests[request].body["input"]]


def _short(item: dict[str, Any]) -> str:
    match item["type"]:
        case "reasoning":
            assert item["encrypted_content"]
            return "thought " + item["summary"][0]["text"]
        case "function_call":
            return "call " + item["call_id"]
        case "function_call_output":
            return "output " + item["call_id"]
        case _:
            return item["role"]


def notices(stage: Stage) -> list[str]:
    return [notice.content for event in stage.of(RunEvent) for notice in event.run.notices]


async def converse(one: Stage, conversation_id: str, prompt: str) -> None:
    """A message in a conversation that an earlier life of the server had."""
    conversation = await one.runtime.conversation(conversation_id)
    subscription = conversation.subscribe()
    await conversation.send_message(prompt)
    async for frame in subscription:
        if '"type":"complete"' in frame:
            subscription.close()


STEP = ["user", "thought First", "call a", "output a"]


async def test_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    async with connected(look("a", "First"), think(say("One."), "Second"), say("Two."), api=RESPONSES) as (
        server,
        model,
    ):
        one = await stage(model, path)
        await (await one.start()).wait()
        conversation_id = one.conversation.conversation_id
        await one.close()
        again = await stage(model, path)
        await converse(again, conversation_id, "And now?")
        view = await (await again.runtime.conversation(conversation_id)).view()
        assert [m.reasoning for m in view.messages if m.role == "assistant"] == ["First", "Second", ""]
        await again.close()
    assert shape(server) == [*STEP, "thought Second", "assistant", "user"]


async def test_a_denial_and_changed_arguments_leave_it_as_it_was(stages: Stages) -> None:
    both = calls(call("run_python", call_id="a", code="1"), call("run_python", call_id="b", code="2"))
    async with connected(think(both, "First"), run_code("c", "Second"), say("Done."), api=RESPONSES) as (
        server,
        model,
    ):
        one = await stages(model)
        handle = await one.start()
        first, second = await one.requests(2)
        await one.conversation.route_decision(first.approval_id, Decision(approved=False, reason="No."))
        await one.conversation.route_decision(second.approval_id, Decision(approved=True, edited_input={"code": "3"}))
        *_, third = await one.requests(3)
        await one.conversation.route_decision(third.approval_id, Decision(approved=True))
        assert (await handle.wait()).text == "Done."
    step = ["user", "thought First", "call a", "call b", "output a", "output b"]
    assert shape(server, 1) == step
    assert shape(server, 2) == [*step, "thought Second", "call c", "output c"]
    items = server.requests[1].body["input"]
    assert items[4]["output"].startswith("Denied")
    assert "changed the arguments" in items[5]["output"]
    assert items[3]["arguments"] == '{"code": "2"}'


async def test_a_stop_in_the_middle_of_an_answer_leaves_no_half_thought(stages: Stages) -> None:
    half = [*item_events([reasoning("Half a", item_id="rs_1")])[:-1], *RESPONSES.text(["Half an "])[2:]]
    broken = Reply(body=event_stream(half), hang_after=10**6)
    async with connected(look("a", "First"), broken, say("Two."), api=RESPONSES) as (server, model):
        one = await stages(model)
        handle = await one.start()
        await one.until(lambda: [event for event in one.of(TokenEvent) if "Half" in event.content])
        await one.conversation.cancel_run(handle.run_id)
        assert (await handle.wait()).run.status == "cancelled"
        await (await one.start("Go on.")).wait()
    assert shape(server) == [*STEP, "assistant", "user"]


@pytest.mark.parametrize("other", [api for api in APIS if api is not RESPONSES], ids=lambda api: api.name)
async def test_a_model_of_another_api_takes_over_and_gives_back(stages: Stages, other: WireApi) -> None:
    async with (
        connected(look("a", "First"), think(say("One."), "Second"), say("Three."), api=RESPONSES) as (server, model),
        connected(look("b", "Else"), say("Two."), api=other) as (other_server, other_model),
    ):
        changing = Changing(model)
        one = await stages(changing)
        for chosen, prompt in ((model, "1"), (other_model, "2"), (model, "3")):
            changing.model = chosen
            result = await (await one.start(prompt)).wait()
            assert result.run.error is None, result.run.error
    text = orjson.dumps(other_server.requests[-1].body).decode()
    assert "gAAAA" not in text
    assert "rs_" not in text
    own = [*STEP, "thought Second", "assistant"]
    assert shape(server) == [*own, "user", "call b", "output b", "assistant", "user"]
    assert notices(one) == []


async def test_reasoning_that_is_refused_is_left_out_and_the_user_is_told_once(stages: Stages) -> None:
    refused = failure(400, "Item with id 'rs_0123456789abcdef' not found. Items are not persisted.")
    script = (look("a", "First"), think(say("One."), "Second"), refused, say("Two."), say("Three."))
    async with connected(*script, api=RESPONSES) as (server, model):
        one = await stages(model)
        for prompt in ("Look.", "And now?", "And then?"):
            result = await (await one.start(prompt)).wait()
            assert result.run.error is None
    assert [one for one in shape(server, 3) if "thought" in one] == []
    assert [one for one in shape(server, 4) if "thought" in one] == []
    assert set(notices(one)) == {
        "fake no longer accepts what it thought earlier in this conversation, so it was asked without that."
    }
    assert [event.run.notices for event in one.of(RunEvent)][-1] == []  # the last run has none


@each_api
async def test_a_recording_of_a_run_plays_whatever_api_recorded_it(
    api: WireApi, stages: Stages, tmp_path: Path
) -> None:
    path = tmp_path / "run.jsonl"
    async with connected(look("a", "First"), think(say("One."), "Second"), api=api) as (_, model):
        one = await stages(record(path, model))
        recorded = await (await one.start("Look.")).wait()
    two = await stages(RecordedModel(load(path), name="replay"))
    played = await (await two.start("Look.")).wait()
    assert played.text == recorded.text == "One."
    assert [(call.tool_name, call.tool_input) for call in played.tool_calls] == [("look", "{}")]
    assert [m.reasoning for m in played.messages] == [m.reasoning for m in recorded.messages]
    assert "gAAAA" not in path.read_text()
