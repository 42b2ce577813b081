"""A card of a call that writes a file shows how the file would change."""

from typing import Any

import pytest

from agent_kernel.protocol.events import ApprovalRequestEvent
from agent_kernel.protocol.file_cards import FileCard
from agent_kernel.protocol.views import Warning
from agent_kernel.testing import call, say
from agent_kernel.tools.declaration import ToolDeclaration
from tests.core.runtime.runtime_fixtures import FunctionExecutor, Stages

WRITE = ToolDeclaration(
    "write_file",
    "Write.",
    {"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}},
)
NEW = call("write_file", path="a.md", content="new\n")
DIFF = "--- a.md\n+++ a.md\n@@ -1 +1 @@\n-old\n+new"


CARD = FileCard(
    diff=DIFF,
    left_out="And 3 more changes.",
    facts=["Replaces 4 B, 1 line."],
    warnings=[Warning(title="Follows a link:", detail="a.md is a link to ../a.md")],
    base="b" * 64,
)


@pytest.mark.parametrize(
    ("card", "shown"),
    [
        (CARD, ("diff", DIFF, "And 3 more changes.", ["Replaces 4 B, 1 line."])),
        (None, ("code", "new\n", "", ["What the file holds now could not be read."])),
    ],
)
async def test_a_card_of_a_file_shows_how_the_file_would_change_where_the_executor_can_tell(
    stages: Stages, card: FileCard | None, shown: Any
) -> None:
    stage = await stages([NEW, say("ok")], executor=FunctionExecutor(card=card))
    handle, [request] = await stage.asking(tools=(WRITE,))
    preview = request.preview
    assert (preview.kind, preview.text, preview.left_out, preview.facts) == shown
    linked = ["Follows a link:"] if card is CARD else []
    assert [one.title for one in request.warnings] == ["Writes files:", *linked]
    await stage.approve(request)
    result = await handle.wait()
    base = card.base if card else ""  # what was shown is what is replaced
    assert [(ran.arguments_json, ran.base) for ran in stage.executor.ran] == [(request.tool_input, base)]
    assert (result.tool_calls[0].preview, result.tool_calls[0].warnings) == (request.preview, request.warnings)


async def test_a_change_that_nobody_could_read_is_refused_before_anybody_is_asked(stages: Stages) -> None:
    refusal = "This would change 50,000,000 characters of 'a.md'."
    stage = await stages([NEW, say("ok")], executor=FunctionExecutor(card=FileCard(refusal=refusal)))
    result = await stage.run(tools=(WRITE,))
    assert [(one.state, one.reason) for one in result.tool_calls] == [("invalid", refusal)]
    assert refusal in stage.told()[0]
    assert (stage.of(ApprovalRequestEvent), stage.executor.ran) == ([], [])
