"""Keys that the host knows reach neither the model nor the log nor a page by what is read with nobody asked."""

import json

import pytest

from agent_kernel.approvals.scripted import approve
from agent_kernel.log.message_rows import read_messages
from agent_kernel.models.redaction import IN_PLACE
from agent_kernel.protocol.calls import ApprovedCall, Outcome
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.events import ToolOutputEvent
from agent_kernel.protocol.file_cards import FileCard
from agent_kernel.protocol.views import OutputView
from agent_kernel.testing import call, say
from agent_kernel.tools.builtin.declarations import BUILTIN_TOOLS
from agent_kernel.tools.executor import OutputSink
from tests.core.runtime.runtime_fixtures import YES, FunctionExecutor, Stage, Stages

KEY = "key-of-a-service-0123456789-and-more"
TOKEN = "the 'servers' token"
SAID = f"a {KEY} b {TOKEN} c {KEY[:24]}..."


def show_all(_: ApprovedCall, emit: OutputSink) -> Outcome:
    """Prints the keys letter by letter, shows them, and returns them."""
    for name in ("stdout", "stderr"):
        for letter in SAID.removesuffix("..."):
            emit(OutputView(kind="stream", name=name, text=letter))
    emit(OutputView(kind="display", data={"text/html": f"<b>{SAID}", "application/json": {SAID: [SAID]}}))
    emit(OutputView(kind="error", text=SAID))
    emit(OutputView(kind="stream", name="stdout", text=f"{SAID} k"))
    return Outcome("success", SAID)


async def everything(stage: Stage) -> list[str]:
    """What the model, the pages and the log were given."""
    number = stage.conversation.row.number
    logged = await stage.log.read(lambda sql: [json.dumps(body) for _, _, body in read_messages(sql, number)])
    requests = [json.dumps(list(request.messages)) for request in stage.model.requests]
    return [*requests, *logged, *(event.model_dump_json() for event in stage.events)]


def printed(stage: Stage, name: str) -> str:
    outputs = [event.output for event in stage.of(ToolOutputEvent)]
    return "".join(output.text for output in outputs if output.kind == "stream" and output.name == name)


async def test_what_is_read_unasked_tells_no_key(stages: Stages) -> None:
    executor = FunctionExecutor(show_all, environment=f"[1] key = '{KEY}'\n[2] {KEY[:24]}...")
    stage = await stages([call("look", call_id="a"), say("Seen.")], executor=executor, secrets=(KEY, TOKEN))
    result = await stage.run("Look.")
    assert result.run.status == "complete"
    texts = await everything(stage)
    for text in texts:
        assert KEY[:20] not in text
        assert "servers" not in text
    assert f"key = '{IN_PLACE}'\\n[2] {IN_PLACE}" in texts[0]
    assert f"a {IN_PLACE} b {IN_PLACE} c {IN_PLACE}" in texts[1]
    assert printed(stage, "stderr") == f"a {IN_PLACE} b {IN_PLACE} c {IN_PLACE}"
    shown = [event.output for event in stage.of(ToolOutputEvent)]
    assert [output.kind for output in shown][-4:] == ["display", "error", "stream", "stream"]
    assert shown[-1].text == "k"


@pytest.mark.parametrize("by_script", [True, False])
async def test_what_a_person_approved_is_shown_as_it_is(stages: Stages, by_script: bool) -> None:
    asks = [call("run_python", call_id="a", code="show()"), say("Seen.")]
    stage = await stages(asks, executor=FunctionExecutor(show_all), secrets=(KEY, TOKEN))
    if by_script:
        await stage.run("Show.", script=(approve("run_python"),))
    else:
        await stage.run("Show.", YES)
    said = json.dumps(list(stage.model.requests[1].messages))
    assert (KEY in said) is (KEY in printed(stage, "stdout")) is not by_script


async def test_the_file_on_a_card_is_shown_without_keys(stages: Stages) -> None:
    executor = FunctionExecutor(card=FileCard(diff=f"-KEY={KEY}\n+KEY=", base="b"))
    write = call("write_file", call_id="a", path=".env", content="KEY=")
    stage = await stages([write, say("Done.")], executor=executor, secrets=(KEY,))
    handle, [asked] = await stage.asking(tools=BUILTIN_TOOLS)
    assert asked.preview.text == f"-KEY={IN_PLACE}\n+KEY="
    await stage.decide(Decision(approved=True, digest=asked.digest))
    await handle.wait()
    assert executor.ran[0].base == "b"
