"""What a model of the Responses API thought goes back to it in its place, through all that happens to a run, and is in
the log once. The service's double refuses reasoning that nothing follows, and calls without their outputs."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from agent_kernel.protocol.events import RunEvent, TokenEvent
from agent_kernel.testing import say
from agent_kernel.testing.fake_service import FakeService
from agent_kernel.testing.wire.reply import Reply, event_stream, failure
from agent_kernel.testing.wire.responses import item_events, reasoning
from tests.core.models.model_apis import APIS, RESPONSES, WireApi
from tests.core.models.model_fixtures import connected
from tests.core.runtime.runtime_fixtures import Stage, Stages, stage
from tests.core.runtime.turns.thinking_fixtures import Changing, look, think


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
