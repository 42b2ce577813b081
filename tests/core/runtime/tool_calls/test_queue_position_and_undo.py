"""A call behind the user's own cell, and a file that is put back: at the level of the runtime."""

import re
from typing import Any

import pytest

from agent_kernel.approvals.folder_file import NO_LIMITS, parse
from agent_kernel.errors import IllegalTransition, LogUnavailable, UndoRefused
from agent_kernel.protocol.calls import ApprovedCall, Outcome
from agent_kernel.protocol.events import ToolCompleteEvent, ToolStartEvent, ToolStateEvent, ToolUndoneEvent
from agent_kernel.protocol.views import ToolCallView
from agent_kernel.testing import call, say
from agent_kernel.tools.builtin.declarations import BUILTIN_TOOLS
from tests.core.runtime.runtime_fixtures import FunctionExecutor, Stages

WRITTEN = "2026-11-20T14:11:20Z"


async def test_a_call_says_that_it_waits_behind_the_users_cell_and_when_it_begins(stages: Stages) -> None:
    stage = await stages([call("run_python", code="1"), say("ok")])

    async def act(_: ApprovedCall, __: Any) -> str:
        executor.behind = 9
        await stage.until(lambda: stage.of(ToolStateEvent)[-1].waiting_behind == 9)
        snapshots.extend((await stage.conversation.view()).tool_calls)
        executor.behind = None
        await stage.until(lambda: stage.of(ToolStateEvent)[-1].waiting_behind is None)
        return "ran"

    executor: FunctionExecutor = stage.executor
    executor.act = act
    snapshots: list[ToolCallView] = []
    await stage.run(policy="allow")
    snapshots.extend((await stage.conversation.view()).tool_calls)
    assert [view.waiting_behind for view in snapshots] == [9, None]
    waits = [event for event in stage.of(ToolStateEvent) if event.state == "executing"]
    assert [event.waiting_behind for event in waits] == [9, None]
    assert stage.events.index(waits[0]) > stage.events.index(stage.of(ToolStartEvent)[0])
    assert stage.events.index(waits[1]) < stage.events.index(stage.of(ToolCompleteEvent)[0])


def keeps(stage: Any) -> None:
    """The executor keeps what each call replaced."""

    def act(ran: ApprovedCall, _: Any) -> Outcome:
        stage.executor.kept.add(ran.approval_id)
        return Outcome("success", "Replaced a.md.", WRITTEN)

    stage.executor.act = act


async def shown(stage: Any, tool_call_id: str) -> tuple[str | None, bool]:
    """What a page that is opened now offers to undo, and whether that was done."""
    [view] = [one for one in (await stage.conversation.view()).tool_calls if one.tool_call_id == tool_call_id]
    return view.undo, view.undone


async def test_what_a_call_wrote_is_undone_and_the_model_learns_of_it_before_it_goes_on(stages: Stages) -> None:
    turns = [call("run_python", code="1", call_id="a"), call("run_python", code="2", call_id="b"), say("ok")]
    stage = await stages(turns)
    keeps(stage)
    rules = ('ask run_python where code is "2"',)
    handle = await stage.start(policy="allow", rules=rules)
    [waiting] = await stage.requests()
    assert stage.of(ToolCompleteEvent)[0].undo == WRITTEN
    assert await shown(stage, "a") == (WRITTEN, False)
    await stage.conversation.undo_call("a", decided_by="ana")
    assert stage.executor.undone == ["a"]
    assert await shown(stage, "a") == (WRITTEN, True)
    with pytest.raises(IllegalTransition):
        await stage.conversation.undo_call("b")
    await stage.conversation.cancel_call(waiting.tool_call_id)
    await handle.wait()
    [undone] = stage.of(ToolUndoneEvent)
    assert (undone.tool_call_id, undone.decided_by) == ("a", "ana")
    assert stage.model.requests[-1].messages[-1]["role"] == "user"
    assert "I have undone your run_python call" in stage.model.requests[-1].messages[-1]["content"]


async def test_what_a_call_wrote_is_undone_after_the_run_and_the_model_of_the_next_prompt_learns_of_it(
    stages: Stages,
) -> None:
    stage = await stages([call("run_python", code="1", call_id="a"), say("Written."), say("I see.")])
    keeps(stage)
    await stage.run(policy="allow")
    [written] = (await stage.conversation.view()).tool_calls
    undone = await stage.runtime.undo(written.approval_id, decided_by="ana")
    assert (undone.undone, stage.executor.undone) == (True, ["a"])
    with pytest.raises(UndoRefused, match="undone already"):
        await stage.runtime.undo(written.approval_id)
    await stage.run("And now?", policy="allow")
    told = [message["content"] for message in stage.model.requests[-1].messages if message["role"] == "user"]
    assert told[1] == "I have undone your run_python call: None is as it was before."
    assert told[2].startswith("And now?")
    assert [event.decided_by for event in stage.of(ToolUndoneEvent)] == ["ana"]


async def test_an_undo_is_in_the_trail_before_it_is_done_and_can_be_asked_for_again_after_a_crash(
    stages: Stages,
) -> None:
    """Between the two the process dies, or the log takes nothing."""
    stage = await stages([call("run_python", code="1", call_id="a"), say("Written.")])
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
    assert await shown(stage, "a") == (WRITTEN, False)
    stage.executor.undo = undone
    await stage.conversation.undo_call("a", decided_by="ana")
    assert await shown(stage, "a") == (WRITTEN, True)
    stage.executor.kept.clear()
    with pytest.raises(UndoRefused):
        await stage.conversation.undo_call("a", redo=True, decided_by="eve")
    refused = {"redo": True, "refused": "The file was changed since."}
    said = [{name: one[name] for name in ("redo", "refused") if name in one} for one in await trail()]
    assert said == [{}, {}, {"redo": True}, refused]


@pytest.mark.parametrize(
    ("since", "refusal"),
    [
        ('rules = ["deny write_file"]', "By policy: deny write_file."),
        (
            "rules = ['deny write_file where path matches \"secret/*\"']",
            'By policy: deny write_file where path matches "secret/*".',
        ),
        ('policy = "plan"', "Plan only: reads, never acts."),
        ('rules = ["ask write_file", "deny run_shell"]', None),
        ("rules = 3", None),  # not understood, so that nothing runs unasked: and here a person has asked
    ],
)
@pytest.mark.parametrize("during", [True, False])
async def test_a_change_is_not_made_again_against_a_rule_that_came_since(
    stages: Stages, since: str, refusal: str | None, during: bool
) -> None:
    """The path goes by a link: what is judged is the place that the call has written."""
    limits = [NO_LIMITS]
    write = call("write_file", path="link.md", content="new", call_id="a")
    stage = await stages(
        [write, call("run_python", code="1", call_id="b"), say("ok")], read_limits=lambda _: limits[-1]
    )
    stage.executor.links["link.md"] = "/home/ana/secret/a.md"
    keeps(stage)
    handle = await stage.start(policy="allow", tools=BUILTIN_TOOLS, rules=("ask run_python",))
    await stage.requests()
    if not during:
        await stage.conversation.cancel_call("b")
        await handle.wait()
    [approval_id] = [one.approval_id for one in (await stage.conversation.view()).tool_calls if one.undo]
    await stage.runtime.undo(approval_id)
    limits.append(parse(since.encode(), ".agent-kernel.toml"))
    if refusal is None:
        assert not (await stage.runtime.undo(approval_id, redo=True)).undone
    else:
        for _ in range(2):  # nor does a refusal use it up
            with pytest.raises(UndoRefused, match=re.escape(f"{refusal} The change was not made again.")):
                await stage.runtime.undo(approval_id, redo=True)
        assert await shown(stage, "a") == (WRITTEN, True)
        limits.append(NO_LIMITS)
        run_id = stage.of(ToolUndoneEvent)[0].run_id
        assert run_id is not None
        [change] = (await stage.runtime.undo_run(run_id, redo=True)).changes
        assert change.refusal is None
    await stage.conversation.undo_call("a")  # which no rule keeps anybody from
    assert stage.executor.undone == ["a"] * 3
    if during:
        await stage.conversation.cancel_call("b")
        await handle.wait()
