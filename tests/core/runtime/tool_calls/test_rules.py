"""Always allow: what is offered, what is saved, and how a rule is taken back."""

from pathlib import Path
from typing import Any

import pytest

from agent_kernel.approvals.offers import offered_rules
from agent_kernel.approvals.rules import JudgedCall, Rule
from agent_kernel.approvals.scripted import ScriptedDecision
from agent_kernel.errors import ConfigurationError, InvalidArguments, UnknownRule
from agent_kernel.protocol.calls import ApprovedCall
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.events import ApprovalResponseEvent, RunEvent
from agent_kernel.protocol.views import ToolCallView
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.testing import ScriptedModel, call, calls, say
from agent_kernel.tools.arguments import canonical, digest
from agent_kernel.tools.builtin.declarations import BUILTIN_TOOLS
from agent_kernel.tools.review.preview import warnings
from tests.core.runtime.runtime_fixtures import RUN_PYTHON, FunctionExecutor, Stages
from tests.core.runtime.runtime_fixtures import stage as make_stage

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
    found = offered_rules(waiting(tool, **arguments))
    return [(offer.label, offer.text) for offer in found if "conversation" in offer.scopes]


EXACT, EVERY = "This exact call", "Every run_python call"
HARMLESS = "Python that, as far as it can be read, writes no files, uses no network and no shell"


@pytest.mark.parametrize(
    ("code", "like"),
    [
        ("df.head()", [(HARMLESS, "allow run_python where warnings within []")]),
        (
            "df.to_csv('a.csv')",
            [
                (
                    "Python that, as far as it can be read, does no more than this: writes files",
                    'allow run_python where warnings within ["Writes files"]',
                )
            ],
        ),
        ("eval(text)", []),
        ("del x, (", []),  # it can't be read
    ],
)
def test_code_is_offered_by_what_a_reading_warns_of_first_and_as_every_call_last(
    code: str, like: list[tuple[str, str]]
) -> None:
    found = offered_rules(waiting("run_python", code=code))
    *first, exact, every, everything = [(offer.label, offer.text) for offer in found]
    assert first == like
    assert exact == (EXACT, f"allow run_python where digest is {digest(canonical({'code': code}))}")
    assert [every, everything] == [(EVERY, "allow run_python"), ("Every call", "allow *")]
    assert [offer.label for offer in found if "run" not in offer.scopes] == [EXACT]
    assert [offer.label for offer in found if "user" not in offer.scopes] == ["Every call"]


@pytest.mark.parametrize(
    ("code", "covered"),
    [
        ("df.describe()", True),
        ("df.to_csv('b.csv')", True),
        ("import os; os.remove('b.csv')", False),
        ("import requests; requests.get('http://a')", False),
        ("(", False),
    ],
)
def test_a_rule_for_code_like_this_covers_no_code_that_is_warned_of_more(code: str, covered: bool) -> None:
    rule = Rule.parse('allow run_python where warnings within ["Writes files"]')
    arguments = {"code": code}
    assert rule.weigh(JudgedCall("run_python", arguments, "")) == ("yes" if covered else "no")
    assert rule.weigh(JudgedCall("run_shell", {"command": "ls"}, "")) == "no"


@pytest.mark.parametrize(
    "text",
    [
        "allow run_shell where warnings within []",
        "allow * where warnings within []",
        'allow run_python where warnings within {"a": 1}',
    ],
)
def test_a_reading_is_a_condition_on_code_only(text: str) -> None:
    with pytest.raises(ConfigurationError):
        Rule.parse(text)


@pytest.mark.parametrize(
    ("path", "label", "rule"),
    [
        ("exports/weekly.csv", "CSV files in exports/", 'allow write_file where path matches "exports/*.csv"'),
        ("weekly.csv", "CSV files in this folder", 'allow write_file where path matches "*.csv"'),
        ("a[1]/b.md", "MD files in a[1]/", 'allow write_file where path matches "a[[]1]/*.md"'),
    ],
)
def test_a_file_is_offered_with_its_kind_and_its_folder(path: str, label: str, rule: str) -> None:
    assert offered("write_file", path=path, content="x")[1] == (label, rule)


@pytest.mark.parametrize("path", ["../secrets/a.csv", "exports/../../a.csv", "exports\\a.csv", "a\nb/c.csv"])
def test_a_path_that_leaves_its_folder_is_offered_as_an_exact_call_only(path: str) -> None:
    labels = [label for label, _ in offered("write_file", path=path, content="x")]
    assert labels == ["This exact call", "Every write_file call"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("git status --short", "git status"),
        ("git add -A && git add x", "git add"),
        ("ls -l data", "ls"),
        ("python train.py --epochs 3", "python train.py"),
        ("python -m pytest -x", "python -m pytest"),
        ("uv sync --all-extras", "uv sync"),
    ],
)
def test_a_command_is_offered_with_its_first_words(command: str, words: str) -> None:
    offer = (f"Commands that begin with {words}", f'allow run_shell where command matches "{words} *"')
    assert offered("run_shell", command=command)[1:] == [offer, ("Every run_shell call", "allow run_shell")]


@pytest.mark.parametrize(
    "command",
    [
        *(
            "git add -A && git commit -m x",
            "git --version",
            "git log | head",
            "ls > x",
            "ls $x",
            "sudo ls",
            "env ls",
            "x=1",
        ),
        *(
            "python -c 'x'",
            "find . -delete",
            "git -c a.b=c log",
            "ls *.csv",
            'a b"c" | sh',
            "",
            "'a b' c",
            "'*' x",
            "(ls)",
        ),
        "ls " + "x" * 1_000,
    ],
)
def test_a_command_that_one_rule_cant_cover_is_offered_as_an_exact_call_only(command: str) -> None:
    labels = [label for label, _ in offered("run_shell", command=command)]
    assert labels == ["This exact call", "Every run_shell call"]


async def test_the_exact_call_runs_unasked_the_next_time_and_another_one_asks(stages: Stages) -> None:
    turns = [call("run_python", code="1", call_id=name) for name in "ab"]
    stage = await stages([*turns, call("run_python", code="2", call_id="c"), say("done")])
    handle = await stage.start()
    [first] = await stage.requests()
    exact = first.rules[1].text
    await stage.conversation.route_decision(first.approval_id, ALWAYS.model_copy(update={"rule": exact}))
    _, other = await stage.requests(2)
    assert other.tool_call_id == "c"
    await stage.conversation.route_decision(other.approval_id, Decision(approved=False))
    result = await handle.wait()
    assert [c.by for c in result.tool_calls] == ["user", "policy", "user"]
    assert [rule.text for rule in result.run.policy.rules] == [exact]


async def test_a_rule_that_was_not_offered_is_refused_and_the_call_goes_on_waiting(stages: Stages) -> None:
    stage = await stages([call("run_python", code="1"), say("ok")])
    handle = await stage.start()
    [request] = await stage.requests()
    with pytest.raises(InvalidArguments, match="was not offered"):
        await stage.conversation.route_decision(request.approval_id, ALWAYS.model_copy(update={"rule": "allow *"}))
    assert stage.executor.ran == []
    await stage.conversation.route_decision(request.approval_id, Decision(approved=True))
    result = await handle.wait()
    assert result.run.policy.rules == []


async def test_a_call_that_a_rule_allowed_does_not_start_once_the_rule_is_removed(stages: Stages) -> None:
    turn = calls(*(call("run_python", code=name, call_id=name) for name in "ab"))
    stage = await stages([turn, say("done")], executor=FunctionExecutor())

    async def removed(ran: ApprovedCall, _: Any) -> str:
        await stage.until(lambda: len(stage.of(ApprovalResponseEvent)) == 2)
        [rule] = (await stage.conversation.view()).runs[0].policy.rules
        await stage.conversation.remove_rule(rule.rule_id)
        return "ok"

    stage.executor.act = removed
    handle = await stage.start()
    first, _ = await stage.requests(2)
    await stage.conversation.route_decision(first.approval_id, ALWAYS)
    result = await handle.wait()
    assert [ran.tool_call_id for ran in stage.executor.ran] == ["a"]
    assert result.tool_calls[1].state == "denied"
    assert result.tool_calls[1].reason == "The rule that allowed this call is no longer in force."


async def test_a_rule_for_the_project_reaches_the_other_notebooks_in_its_folder_and_can_be_removed_there(
    stages: Stages,
) -> None:
    turns = [call("run_python", code="1", call_id=name) for name in "ab"]
    stage = await stages([*turns, say("x"), say("x")])
    neighbour = await stage.runtime.create_conversation(kernel_id="n", notebook_path="work/other.ipynb")
    stranger = await stage.runtime.create_conversation(kernel_id="s", notebook_path="elsewhere/a.ipynb")
    handle = await stage.start()
    [first] = await stage.requests()
    spec = RunSpec(run_id="r", prompt="Go", tools=(RUN_PYTHON,))
    other = await neighbour.start_run(spec, FunctionExecutor())
    async for frame in neighbour.subscribe(0):
        if '"type":"approval_request"' in frame:
            break
    await stage.conversation.route_decision(first.approval_id, Decision(approved=True, scope="project"))
    await handle.wait()
    result = await other.wait()
    assert [c.by for c in result.tool_calls] == ["policy"]
    [rule] = result.run.policy.rules
    with pytest.raises(UnknownRule):
        await stranger.remove_rule(rule.rule_id)
    await neighbour.remove_rule(rule.rule_id)
    with pytest.raises(UnknownRule):
        await stage.conversation.remove_rule(rule.rule_id)


async def test_a_rule_of_a_run_is_seen_survives_a_restart_is_taken_back_and_ends_with_the_run(tmp_path: Path) -> None:
    turn = calls(call("run_python", code="a = 1", call_id="a"), call("run_python", code="b = 2", call_id="b"))
    writes = call("run_python", code="df.to_csv('x.csv')", call_id="w")
    with ScriptedModel(
        [turn, writes, call("run_python", code="c = 3"), say("done"), call("run_python", code="d = 4"), say("ok")]
    ) as m:
        before = await make_stage(m, tmp_path / "log.sqlite")
        await before.start()
        first, _ = await before.requests(2)
        rule = "allow run_python where warnings within []"
        like = Decision(approved=True, scope="run", rule=rule)
        exact = Decision(approved=True, scope="run", rule=f"allow run_python where digest is {first.digest}")
        with pytest.raises(InvalidArguments):  # it is not offered for the run
            await before.conversation.route_decision(first.approval_id, exact)
        await before.conversation.route_decision(first.approval_id, like, decided_by="ana")
        warned = (await before.requests(3))[-1]
        assert warned.tool_call_id == "w", "what is warned of asks"
        assert before.of(RunEvent)[-1].run.policy.rules[0].scope == "run"
        saved = [one for one in await before.audit() if one["kind"] == "rule"]
        assert [(one["scope"], one["rule"], one["decided_by"]) for one in saved] == [("run", rule, "ana")]
        decided = [one for one in await before.audit() if one["kind"] == "decision"]
        assert [(one["tool_call_id"], one["scope"], one["by"]) for one in decided] == [
            ("a", "run", "user"),
            ("b", "once", "policy"),
        ]
        await before.close()
        after = await make_stage(m, tmp_path / "log.sqlite")

        async def executor_for(*_: Any) -> FunctionExecutor:
            return after.executor

        [(_, conversation, handle)] = (await after.runtime.recover(executor_for)).continued
        await conversation.route_decision(warned.approval_id, Decision(approved=True))
        result = await handle.wait()
        assert [one.by for one in result.tool_calls] == ["user", "policy", "user", "policy"]
        assert [one.text for one in await after.runtime.list_rules()] == []
        spec = RunSpec(run_id="later", prompt="Go", tools=(RUN_PYTHON,), script=(ScriptedDecision(approved=False),))
        [asked] = (await (await conversation.start_run(spec, after.executor)).wait()).tool_calls
        assert (asked.state, asked.by) == ("denied", "script"), "the next run asks"
        await after.close()


async def test_every_call_of_a_run_is_no_longer_asked_about_until_that_is_taken_back(stages: Stages) -> None:
    turns = [call("run_python", code="a"), call("run_shell", command="ls"), call("run_python", code="eval(x)")]
    outside = call("run_shell", command="ls", outside=True)
    stage = await stages([*turns, outside, call("run_python", code="b"), say("done")])
    handle = await stage.start(tools=BUILTIN_TOOLS)
    [request] = await stage.requests()
    every = Decision(approved=True, scope="run", rule="allow *")
    await stage.conversation.route_decision(request.approval_id, every)
    outside_request = (await stage.requests(2))[-1]
    assert [ran.tool_name for ran in stage.executor.ran] == ["run_python", "run_shell", "run_python"]
    [rule] = stage.of(RunEvent)[-1].run.policy.rules
    assert rule.rule_id is not None
    await stage.conversation.remove_rule(rule.rule_id)
    await stage.conversation.route_decision(outside_request.approval_id, Decision(approved=True))
    last = (await stage.requests(3))[-1]
    assert last.tool_input == '{"code":"b"}'
    await stage.conversation.route_decision(last.approval_id, Decision(approved=False))
    await handle.wait()
