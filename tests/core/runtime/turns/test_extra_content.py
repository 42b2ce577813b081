"""What a server wants back with a call goes back as it came: Gemini refuses requests without its signatures."""

from pathlib import Path
from typing import Any

from agent_kernel.models.base import ModelTurn, RequestedCall
from agent_kernel.testing import say
from agent_kernel.testing.wire.chat import plain, streamed
from tests.core.models.model_fixtures import connected, turn_of
from tests.core.runtime.runtime_fixtures import stage

SIGNED = {"google": {"thought_signature": "CvcQAdHtim+/w==", "more": [1, None]}}
TURN = ModelTurn(
    content="",
    tool_calls=(
        RequestedCall("a", "look", "{}", SIGNED),
        RequestedCall("b", "look", "{}"),
    ),
)


def calls_of(request: Any) -> list[Any]:
    return [call for message in request.body["messages"] for call in message.get("tool_calls", ())]


async def test_it_goes_back_with_the_call_in_the_next_request_and_after_a_restart(tmp_path: Path) -> None:
    async with connected(TURN, say("One."), say("Two.")) as (server, model):
        one = await stage(model, tmp_path / "log.sqlite")
        await (await one.start()).wait()
        conversation_id = one.conversation.conversation_id
        await one.close()
        again = await stage(model, tmp_path / "log.sqlite")
        conversation = await again.runtime.conversation(conversation_id)
        subscription = conversation.subscribe()
        await conversation.send_message("And now?")
        async for frame in subscription:
            if '"type":"complete"' in frame:
                subscription.close()
        await again.close()
        for request in server.requests[1:]:
            first, second = calls_of(request)
            assert first["extra_content"] == SIGNED
            assert "extra_content" not in second


async def test_it_is_read_from_a_stream_and_from_a_server_that_does_not_stream() -> None:
    body = plain(TURN)
    text = body.body.replace(b'"id": "a"', b'"id": "a", "extra_content": {"google": {"thought_signature": "s"}}')
    async with connected(streamed(TURN), type(body)(body=text, content_type=body.content_type)) as (_, model):
        assert [call.extra_content for call in (await turn_of(model)).tool_calls] == [SIGNED, None]
        signed = {"google": {"thought_signature": "s"}}
        assert [call.extra_content for call in (await turn_of(model)).tool_calls] == [signed, None]
