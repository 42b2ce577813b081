"""A card of a call that writes a file shows how the file would change."""

from typing import Any

import pytest

from agent_kernel.errors import KernelGone
from agent_kernel.protocol.commands import Decision
from agent_kernel.testing import ScriptedModel, call, say
from agent_kernel.tools.declaration import ToolDeclaration
from tests.core.brain_fixtures import FunctionHands

WRITE = ToolDeclaration(
    "write_file",
    "Write.",
    {"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}},
)
DIFF = "--- a.md\n+++ a.md\n@@ -1 +1 @@\n-old\n+new"


@pytest.mark.parametrize(("diff", "kind"), [(DIFF, "diff"), (None, "code")])
async def test_a_card_of_a_file_shows_how_the_file_would_change_where_the_hands_can_tell(
    stages: Any, diff: str | None, kind: str
) -> None:
    with ScriptedModel([call("write_file", path="a.md", content="new\n"), say("ok")]) as model:
        stage = await stages(model, hands=FunctionHands(diff=diff))
        handle = await stage.start(tools=(WRITE,))
        [request] = await stage.requests()
        assert (request.preview.kind, request.preview.text) == (kind, diff or "new\n")
        await stage.conversation.decide(request.approval_id, Decision(approved=True))
        result = await handle.wait()
    assert [ran.arguments_json for ran in stage.hands.ran] == [request.tool_input]
    assert result.tool_calls[0].preview == request.preview


async def test_a_file_that_is_written_unasked_shows_its_diff_when_it_starts(stages: Any) -> None:
    with ScriptedModel([call("write_file", path="a.md", content="new\n"), say("ok")]) as model:
        stage = await stages(model, hands=FunctionHands(diff=DIFF))
        await (await stage.start(tools=(WRITE,), policy="allow")).wait()
    assert stage.of("approval_request") == []
    assert stage.of("tool_start")[0].preview.text == DIFF


async def test_a_card_of_a_file_does_without_a_diff_where_the_hands_do_not_answer(stages: Any) -> None:
    class Gone(FunctionHands):
        async def preview(self, tool_name: str, arguments_json: str) -> str | None:
            raise KernelGone("The kernel died.")

    with ScriptedModel([call("write_file", path="a.md", content="new\n"), say("ok")]) as model:
        stage = await stages(model, hands=Gone())
        handle = await stage.start(tools=(WRITE,))
        [request] = await stage.requests()
        assert request.preview.text == "new\n"
        await stage.conversation.decide(request.approval_id, Decision(approved=False))
        await handle.wait()
