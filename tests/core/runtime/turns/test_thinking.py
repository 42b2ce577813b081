"""What a model thought goes back to its service unchanged, through all that happens to a run. The service's double
refuses thinking that was changed, and thinking before which anything was."""

import sqlite3
from contextlib import closing
from pathlib import Path

import orjson

from agent_kernel.log.event_rows import read_messages
from agent_kernel.protocol.events import RunEvent
from agent_kernel.testing import say
from agent_kernel.testing.fake_anthropic import FakeAnthropic
from agent_kernel.testing.wire.messages import SIGNED
from tests.core.models.messages_fixtures import speaking
from tests.core.runtime.runtime_fixtures import Stage, stage
from tests.core.runtime.turns.thinking_fixtures import look, think


def thoughts(server: FakeAnthropic, request: int = -1) -> list[str]:
    messages = server.requests[request].body["messages"]
    return [block["thinking"] for message in messages for block in message["content"] if block["type"] == "thinking"]


def notices(stage: Stage) -> list[str]:
    return [notice.content for event in stage.of(RunEvent) for notice in event.run.notices]


async def test_after_a_restart_and_once_in_the_log(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    async with speaking(look("a", "First"), think(say("One."), "Second"), say("Two.")) as (server, model):
        one = await stage(model, path)
        await (await one.start()).wait()
        conversation_id = one.conversation.conversation_id
        await one.close()
        again = await stage(model, path)
        conversation = await again.runtime.conversation(conversation_id)
        subscription = conversation.subscribe()
        await conversation.send_message("And now?")
        async for frame in subscription:
            if '"type":"complete"' in frame:
                subscription.close()
        history = await again.runtime.conversation(conversation_id)
        assert [m.reasoning for m in (await history.view()).messages if m.role == "assistant"] == [
            "First",
            "Second",
            "",
        ]
        await again.close()
    assert thoughts(server) == ["First", "Second"]
    with closing(sqlite3.connect(path)) as sql:
        bodies = [body for _, _, body in read_messages(sql, 1)]
    assert [orjson.dumps(body).count(SIGNED.encode()) for body in bodies] == [0, 1, 0, 1, 0, 0]
    assert SIGNED not in str(one.events)
