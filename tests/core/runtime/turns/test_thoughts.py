"""Reasoning that came within an answer's text is shown as reasoning, and goes back to no service."""

import pytest

from agent_kernel.protocol.events import MessageEvent, ReasoningEvent, TokenEvent
from agent_kernel.testing import say
from agent_kernel.testing.wire.chat import delta, events
from tests.core.models.model_fixtures import connected
from tests.core.runtime.runtime_fixtures import Stages


@pytest.mark.parametrize("opening", [["<th", "ink>\n"], []], ids=["with its opening tag", "with its closing tag alone"])
async def test_it_is_no_part_of_the_answer(stages: Stages, opening: list[str]) -> None:
    pieces = [*opening, "Hm", ".\n</th", "ink>\n", "\nYes", "."]
    first = events(*(delta(content=piece) for piece in pieces), delta("stop"), split_every=20)
    async with connected(first, say("Two.")) as (server, model):
        stage = await stages(model)
        result = await (await stage.start()).wait()
        await (await stage.start("And now?")).wait()
    assert (result.run.status, result.text) == ("complete", "Yes.")
    [message] = [message for message in result.messages if message.role == "assistant"]
    assert (message.content, message.reasoning) == ("Yes.", "Hm.\n")
    assert "".join(event.content for event in stage.of(ReasoningEvent)) == "Hm.\n"
    ours = [event for event in stage.of(TokenEvent) if event.message_id == message.message_id]
    assert "".join(event.content for event in ours) == "Yes."
    others = {event.message_id for event in stage.of(TokenEvent)} - {message.message_id}
    taken_back = {event.message_id for event in stage.of(MessageEvent) if event.role != "user" and not event.content}
    assert len(others & taken_back) == (0 if opening else 1)
    assert [one["content"] for one in server.requests[1].body["messages"] if one["role"] == "assistant"] == ["Yes."]
