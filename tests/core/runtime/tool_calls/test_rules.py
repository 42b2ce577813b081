"""Always allow: what is offered, what is saved, and how a rule is taken back."""

from pathlib import Path
from typing import Any

import pytest

from agent_kernel.approvals.offers import offered_rules
from agent_kernel.approvals.scripted import ScriptedDecision
from agent_kernel.errors import InvalidArguments, UnknownRule
from agent_kernel.protocol.calls import ApprovedCall
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.events import ApprovalResponseEvent
from agent_kernel.protocol.views import ToolCallView
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.testing import call, calls, say
from agent_kernel.tools.arguments import canonical, digest
from agent_kernel.tools.review.preview import warnings
from tests.core.runtime.runtime_fixtures import RUN_PYTHON, FunctionExecutor, Stages, run_view, second_life, states

ALWAYS = Decision(approved=True, scope="conversation")


def waiting(tool: str, **arguments: Any) -> ToolCallView:
    text = canonical(arguments)
    return ToolCallView(
        tool_call_id="c",
        approval_id="a",
        conversation_id="v",
        run_id="r",
        tool_name=tool,
        tool_input=text,
        digest=digest(text),
        state="awaiting_approval",
        warnings=warnings(tool, text),
        created_at="",
    )


def offered(tool: str, **arguments: Any) -> list[tuple[str, str]]:
    """What is offered beside the exact call and every call of the tool."""
    found = offered_rules(waiting(tool, **arguments))
    offers = [(offer.label, offer.text) for offer in found if "conversation" in offer.scopes]
    assert (offers[0][0], offers[-1]) == (EXACT, (f"Every {tool} call", f"allow {tool}"))
    return offers[1:-1]


EXACT, EVERY = "This exact call", "Every run_python call"

WRITES = "Python that, as far as it can be read, does no more than this: writes files"


@pytest.mark.parametrize(
    ("code", "like"),
    [
        ("df.to_csv('a.csv')", [(WRITES, 'allow run_python where warnings within ["Writes files"]')]),
        ("del x, (", []),  # it can't be read
    ],
)
def test_code_is_offered_by_what_a_reading_warns_of_first_and_as_every_call_last(
    code: str, like: list[tuple[str, str]]
) -> None:
    found = offered_rules(waiting("run_python", code=code))
    exact = (EXACT, f"allow run_python where digest is {digest(canonical({'code': code}))}")
    every = [(EVERY, "allow run_python"), ("Every call", "allow *")]
    assert [(offer.label, offer.text) for offer in found] == [*like, exact, *every]
    assert [offer.label for offer in found if "run" not in offer.scopes] == [EXACT]
    assert [offer.label for offer in found if "user" not in offer.scopes] == ["Every call"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("git add -A && git add x", "git add"),
        ("python -m pytest -x", "python -m pytest"),
        *((command, None) for command in ("git log | head", "ls > x", "ls $x", "sudo ls", "python -c 'x'", "'*' x")),
    ],
)
def test_a_command_is_offered_with_its_first_words_where_one_rule_can_cover_it(command: str, words: str | None) -> None:
    offer = (f"Commands that begin with {words}", f'allow run_shell where command matches "{words} *"')
    assert offered("run_shell", command=command) == ([offer] if words else [])


async def test_a_rule_that_was_not_offered_is_refused_and_the_call_goes_on_waiting(stages: Stages) -> None:
    stage = await stages([call("run_python", code="1"), say("ok")])
    handle, [request] = await stage.asking()
    with pytest.raises(InvalidArguments, match="was not offered"):
        await stage.decide(ALWAYS.model_copy(update={"rule": "allow *"}))
    assert stage.executor.ran == []
    await stage.approve(request)
    assert (await handle.wait()).run.policy.rules == []


async def test_a_call_that_a_rule_allowed_does_not_start_once_the_rule_is_removed(stages: Stages) -> None:
    async def removed(ran: ApprovedCall, _: Any) -> str:
        await stage.until(lambda: len(stage.of(ApprovalResponseEvent)) == 2)
        [rule] = run_view(stage).policy.rules
        await stage.conversation.remove_rule(rule.rule_id)
        return "ok"

    turn = calls(*(call("run_python", code=name, call_id=name) for name in "ab"))
    stage = await stages([turn, say("done")], executor=FunctionExecutor(removed))
    result = await stage.run("Go", ALWAYS)
    assert states(result) == {"a": "success", "b": "denied"}
    assert [ran.tool_call_id for ran in stage.executor.ran] == ["a"]
    assert result.tool_calls[1].reason == "The rule that allowed this call is no longer in force."


async def test_a_rule_for_the_project_reaches_the_other_notebooks_in_its_folder_and_can_be_removed_there(
    stages: Stages,
) -> None:
    turns = [call("run_python", code="1", call_id=name) for name in "ab"]
    stage = await stages([*turns, say("x"), say("x")])
    neighbour = await stage.runtime.create_conversation(kernel_id="n", notebook_path="work/other.ipynb")
    stranger = await stage.runtime.create_conversation(kernel_id="s", notebook_path="elsewhere/a.ipynb")
    handle, [first] = await stage.asking()
    spec = RunSpec(run_id="r", prompt="Go", tools=(RUN_PYTHON,))
    other = await neighbour.start_run(spec, FunctionExecutor())
    async for frame in neighbour.subscribe(0):
        if '"type":"approval_request"' in frame:
            break
    await stage.decide(Decision(approved=True, scope="project"), first)
    await handle.wait()
    result = await other.wait()
    assert [one.by for one in result.tool_calls] == ["policy"]
    [rule] = result.run.policy.rules
    with pytest.raises(UnknownRule):
        await stranger.remove_rule(rule.rule_id)
    await neighbour.remove_rule(rule.rule_id)
    with pytest.raises(UnknownRule):
        await stage.conversation.remove_rule(rule.rule_id)


async def test_a_rule_of_a_run_is_seen_survives_a_restart_is_taken_back_and_ends_with_the_run(
    stages: Stages, tmp_path: Path
) -> None:
    turn = calls(call("run_python", code="a = 1", call_id="a"), call("run_python", code="b = 2", call_id="b"))
    writes = call("run_python", code="df.to_csv('x.csv')", call_id="w")
    before = await stages([turn, writes], path=tmp_path / "log.sqlite")
    _, [first, _] = await before.asking(2)
    rule = "allow run_python where warnings within []"
    with pytest.raises(InvalidArguments):  # it is not offered for the run
        await before.decide(Decision(approved=True, scope="run", rule=first.rules[1].text))
    await before.decide(Decision(approved=True, scope="run", rule=rule), first, decided_by="ana")
    warned = (await before.requests(3))[-1]
    assert warned.tool_call_id == "w", "what is warned of asks"
    assert run_view(before).policy.rules[0].scope == "run"
    trail = await before.audit()
    saved = [(one["scope"], one["rule"], one["decided_by"]) for one in trail if one["kind"] == "rule"]
    assert saved == [("run", rule, "ana")]
    decided = [(one["tool_call_id"], one["scope"], one["by"]) for one in trail if one["kind"] == "decision"]
    assert decided == [("a", "run", "user"), ("b", "once", "policy")]
    c, d = call("run_python", code="c = 3"), call("run_python", code="d = 4")
    async with second_life(before, c, say("done"), d, say("ok")) as after:
        await after.approve(3)
        result = await after.handles[0].wait()
        assert [one.by for one in result.tool_calls] == ["user", "policy", "user", "policy"]
        assert await after.runtime.list_rules() == []
        asked = await after.run(script=(ScriptedDecision(approved=False),))
        assert [one.by for one in asked.tool_calls] == ["script"], "the next run asks"


async def test_the_exact_call_runs_unasked_the_next_time_and_another_one_asks(stages: Stages) -> None:
    turns = [call("run_python", code="1", call_id=name) for name in "ab"]
    stage = await stages([*turns, call("run_python", code="2", call_id="c"), say("done")])
    handle, [first] = await stage.asking()
    exact = first.rules[1].text
    await stage.decide(ALWAYS.model_copy(update={"rule": exact}))
    assert (await stage.deny(2)).tool_call_id == "c"
    result = await handle.wait()
    assert [one.by for one in result.tool_calls] == ["user", "policy", "user"]
    assert [rule.text for rule in result.run.policy.rules] == [exact]
