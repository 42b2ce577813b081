"""A call behind the user's own cell, and a file that is put back: at the level of the runtime."""

import re
from typing import Any

import pytest

from agent_kernel.approvals.folder_file import NO_LIMITS, parse
from agent_kernel.errors import IllegalTransition, LogUnavailable, UndoRefused
from agent_kernel.protocol.calls import ApprovedCall, Outcome
from agent_kernel.protocol.events import ToolCompleteEvent, ToolStateEvent, ToolUndoneEvent
from agent_kernel.testing import call, say
from agent_kernel.tools.builtin.declarations import BUILTIN_TOOLS
from tests.core.runtime.runtime_fixtures import Stage, Stages

WRITTEN = "2026-11-20T14:11:20Z"
A, B = call("run_python", code="1", call_id="a"), call("run_python", code="2", call_id="b")


async def test_a_call_says_that_it_waits_behind_the_users_cell_and_when_it_begins(stages: Stages) -> None:
    stage = await stages([A, say("ok")])
    snapshots: list[int | None] = []

    async def act(_: ApprovedCall, __: Any) -> str:
        for behind in (9, None):
            stage.executor.behind = behind
            await stage.until(lambda: stage.of(ToolStateEvent)[-1].waiting_behind == stage.executor.behind)
            snapshots.extend(one.waiting_behind for one in await stage.calls())
        return "ran"

    stage.executor.act = act
    await stage.run(policy="allow")
    waits = [event.waiting_behind for event in stage.of(ToolStateEvent) if event.state == "executing"]
    assert waits == snapshots == [9, None]
    kinds = [event.type for event in stage.events if event.type.startswith("tool_")]
    assert kinds[-5:] == ["tool_start", "tool_state", "tool_state", "tool_output", "tool_complete"]


def keeps(stage: Stage) -> None:
    """The executor keeps what each call replaced."""

    def act(ran: ApprovedCall, _: Any) -> Outcome:
        stage.executor.kept.add(ran.approval_id)
        return Outcome("success", "Replaced a.md.", WRITTEN)

    stage.executor.act = act


async def shown(stage: Stage) -> tuple[str | None, bool]:
    """What a page that is opened now offers to undo of the first call, and whether that was done."""
    first = (await stage.calls())[0]
    return first.undo, first.undone


@pytest.mark.parametrize("during", [True, False])
async def test_what_a_call_wrote_is_undone_and_the_model_learns_of_it(stages: Stages, during: bool) -> None:
    """While the run goes on before its next request, and after it with the next prompt."""
    stage = await stages([A, B, say("ok")] if during else [A, say("Written."), say("I see.")])
    keeps(stage)
    handle = await stage.start(policy="allow", rules=('ask run_python where code is "2"',))
    await (stage.requests() if during else handle.wait())
    assert (stage.of(ToolCompleteEvent)[0].undo, await shown(stage)) == (WRITTEN, (WRITTEN, False))
    await stage.runtime.undo((await stage.calls())[0].approval_id, decided_by="ana")
    assert (stage.executor.undone, await shown(stage)) == (["a"], (WRITTEN, True))
    with pytest.raises(UndoRefused, match="undone already"):
        await stage.conversation.undo_call("a")
    if during:
        why = r"^There is nothing to undo\. The call's state: waiting for you\.$"
        with pytest.raises(IllegalTransition, match=why):
            await stage.conversation.undo_call("b")
        await stage.conversation.cancel_call("b")
        await handle.wait()
    else:
        await stage.run("And now?")
    [undone] = stage.of(ToolUndoneEvent)
    assert (undone.tool_call_id, undone.decided_by) == ("a", "ana")
    told = [message["content"] for message in stage.model.requests[-1].messages if message["role"] == "user"]
    assert told[1] == "I have undone your run_python call: None is as it was before."
    assert stage.roles()[-1] == "user"


async def test_an_undo_is_in_the_trail_before_it_is_done_and_can_be_asked_for_again_after_a_crash(
    stages: Stages,
) -> None:
    """Between the two the process dies, or the log takes nothing."""
    stage = await stages([A, say("Written.")])
    keeps(stage)
    await stage.run(policy="allow")

    async def undo(approval_id: str, *, redo: bool = False) -> None:
        assert [one["decided_by"] for one in await trail()] == ["ana"]
        await stage.set_read_only(True)

    async def trail() -> list[dict[str, Any]]:
        return [one for one in await stage.audit() if one["kind"] == "undo"]

    stage.executor.undo, undone = undo, stage.executor.undo
    with pytest.raises(LogUnavailable):
        await stage.conversation.undo_call("a", decided_by="ana")
    await stage.set_read_only(False)
    assert await shown(stage) == (WRITTEN, False)
    stage.executor.undo = undone
    await stage.conversation.undo_call("a", decided_by="ana")
    assert await shown(stage) == (WRITTEN, True)
    stage.executor.kept.clear()
    with pytest.raises(UndoRefused):
        await stage.conversation.undo_call("a", redo=True, decided_by="eve")
    refused = {"redo": True, "refused": "The file was changed since."}
    said = [{name: one[name] for name in ("redo", "refused") if name in one} for one in await trail()]
    assert said == [{}, {}, {"redo": True}, refused]


SECRET = 'deny write_file where path matches "secret/*"'


async def test_a_change_is_not_made_again_against_a_rule_that_came_since(stages: Stages) -> None:
    """The path goes by a link: what is judged is the place that the call has written."""
    limits = [NO_LIMITS]
    write = call("write_file", path="link.md", content="new", call_id="a")
    stage = await stages([write, say("ok")], read_limits=lambda _: limits[-1])
    stage.executor.links["link.md"] = "/home/ana/secret/a.md"
    keeps(stage)
    run = (await stage.run(policy="allow", tools=BUILTIN_TOOLS)).run
    approval_id = (await stage.calls())[0].approval_id
    await stage.runtime.undo(approval_id)
    limits.append(parse(f"rules = ['{SECRET}']".encode(), ".agent-kernel.toml"))
    for _ in range(2):  # nor does a refusal use it up
        with pytest.raises(UndoRefused, match=re.escape(f"By policy: {SECRET}. The change was not made again.")):
            await stage.runtime.undo(approval_id, redo=True)
    assert await shown(stage) == (WRITTEN, True)
    limits.append(NO_LIMITS)
    [change] = (await stage.runtime.undo_run(run.run_id, redo=True)).changes
    assert change.refusal is None
    await stage.conversation.undo_call("a")  # which no rule keeps anybody from
    assert stage.executor.undone == ["a"] * 3
