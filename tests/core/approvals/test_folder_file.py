"""`.agent-kernel.toml` in the notebook's folder: it tightens what runs there may do, and loosens nothing."""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_kernel.approvals.folder_file import FILE_NAME, FolderLimits, parse, read_limits
from agent_kernel.approvals.rules import JudgedCall
from agent_kernel.errors import InvalidArguments
from agent_kernel.protocol.views import RuleView
from agent_kernel.protocol.vocabulary import Approval, BudgetLimits, PolicyMode
from agent_kernel.record.words import policy_words
from agent_kernel.runtime.settings import RunSpec, RuntimeSettings
from agent_kernel.runtime.tool_calls.effective_policy import StoredPolicy, effective_policy
from agent_kernel.testing import ScriptedModel, call, calls, say
from tests.core.runtime.runtime_fixtures import NO, Stages, stage

STRICT: tuple[Approval, ...] = ("allow", "ask", "deny")


def parsed(text: str) -> FolderLimits:
    return parse(text.encode(), FILE_NAME)


def test_a_file_says_a_mode_rules_and_a_budget() -> None:
    limits = parsed(
        'policy = "plan"\nrules = ["deny run_shell", "ask *"]\n[budget]\ntool_calls = 50\nusd = 0.5\nseconds = 90\n'
    )
    assert (limits.mode, limits.notes, limits.closed) == ("plan", (), False)
    assert [rule.text for rule in limits.rules] == ["deny run_shell", "ask *"]
    assert limits.budget == BudgetLimits(tool_calls=50, usd=0.5, seconds=90)
    assert limits.words() == ".agent-kernel.toml: at most plan, 2 rules, 50 tool calls, 90 s, $0.50"


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ('rules = ["allow run_python", "deny run_shell"]', "the rule 'allow run_python' is not used"),
        ('policy = "allow"\nrules = ["deny run_shell"]', 'policy = "allow" changes nothing'),
    ],
)
def test_what_would_loosen_is_left_out_and_said_and_the_rest_tightens(text: str, note: str) -> None:
    limits = parsed(text)
    assert note in limits.notes[0]
    assert limits.notes[0].endswith("a file can only tighten.")
    assert ([rule.text for rule in limits.rules], limits.closed, limits.mode) == (["deny run_shell"], False, None)


@pytest.mark.parametrize(
    "text",
    [
        "policy = ",
        "a = " + "[" * 30_000,
        'rulse = ["deny run_shell"]',
        'rules = ["deny run_shell", "permit run_python"]',
        "rules = [" + '"deny a", ' * 201 + "]",
        'policy = "read"',
        'walls = "moat"',
        "[budget]\ntool_calls = -1",
        "[budget]\ntokens = " + "9" * 5000,
    ],
)
def test_a_file_that_is_not_understood_closes(text: str) -> None:
    limits = parse(text.encode("utf-8", "surrogatepass"), FILE_NAME)
    assert limits.closed
    assert limits.notes[-1].endswith("Until it is mended or removed nothing runs unasked.")
    assert len(limits.notes[-1]) < 600
    assert "nothing runs unasked" in limits.words()


def test_the_parents_up_to_the_servers_root_or_the_repository_tighten_too(tmp_path: Path) -> None:
    folder = tmp_path / "repository" / "server" / "a" / "b"
    folder.mkdir(parents=True)
    (tmp_path / FILE_NAME).write_text('rules = ["deny outside"]')
    (tmp_path / "repository" / FILE_NAME).write_text('rules = ["deny run_shell"]')
    (folder.parent / FILE_NAME).write_text('policy = "ask"\n[budget]\nsteps = 9')
    (folder / FILE_NAME).write_text('policy = "edit"\n[budget]\nsteps = 10')
    alone = read_limits(folder)
    assert (alone.files, alone.mode) == ((".agent-kernel.toml",), "edit")
    served = read_limits(folder, tmp_path / "repository" / "server")
    assert served.files == (".agent-kernel.toml", "../.agent-kernel.toml")
    assert (served.mode, served.budget.steps) == ("ask", 9)
    (tmp_path / "repository" / ".git").mkdir()
    for root in (None, tmp_path / "repository" / "server"):
        assert [rule.file for rule in read_limits(folder, root).rules] == ["../../../.agent-kernel.toml"]


@pytest.mark.parametrize(
    "make",
    [
        lambda place: place.symlink_to("other.toml"),
        os.mkfifo,
        lambda place: place.write_text("#" * (64 * 1024 + 1)),
    ],
    ids=["link", "pipe", "large"],
)
def test_what_is_no_small_regular_file_closes_at_once(tmp_path: Path, make: Callable[[Path], object]) -> None:
    (tmp_path / "other.toml").write_text("")
    make(tmp_path / FILE_NAME)
    found = read_limits(tmp_path)
    assert found.closed
    assert found.notes[0].startswith(FILE_NAME)


TOOLS = st.sampled_from(["run_python", "run_shell", "write_file", "read_file"])
VERBS = st.sampled_from(["allow", "ask", "deny"])
CONDITIONS = st.sampled_from(["", ' where path matches "data/*"', " where command is ls", " where digest is d"])
RULES = st.lists(
    st.builds(lambda verb, tool, condition: f"{verb} {tool}{condition}", VERBS, TOOLS | st.just("*"), CONDITIONS),
    max_size=3,
)
MODES: st.SearchStrategy[PolicyMode] = st.sampled_from(get_args(PolicyMode))
VALUES = st.booleans() | st.integers() | st.floats() | MODES | RULES | st.text(max_size=8)
KEYS = st.sampled_from(["policy", "rules", "budget", "mode"])
LINES = st.builds(lambda key, value: f"{key} = {json.dumps(value)}", KEYS, VALUES)
FILES = st.binary(max_size=60) | st.lists(LINES, max_size=3, unique_by=lambda line: line.split()[0]).map("\n".join).map(
    str.encode
)
CALLS = st.builds(
    JudgedCall,
    TOOLS,
    st.sampled_from([{}, {"path": "data/x"}, {"path": "../x"}, {"command": "ls"}]),
    st.sampled_from(["d", "e"]),
    st.sampled_from(STRICT),
    *[st.booleans()] * 3,
)


@given(FILES, st.lists(FILES, max_size=1), CALLS, MODES | st.none(), MODES | st.none(), RULES, RULES, RULES)
def test_no_file_ever_loosens_a_judgement(
    raw: bytes,
    more: list[bytes],
    judged: JudgedCall,
    mode: PolicyMode | None,
    cap: PolicyMode | None,
    site: list[str],
    own: list[str],
    saved: list[str],
) -> None:
    limits = parse(raw, FILE_NAME)
    for other in more:
        limits = limits.and_(parse(other, f"../{FILE_NAME}"))
    settings = RuntimeSettings(policy_cap=cap, site_rules=tuple(site))
    stored = StoredPolicy(mode, [RuleView(rule_id="r", scope="user", tool_name="x", text=text) for text in saved])
    spec = RunSpec(run_id="r", prompt="", rules=tuple(own))
    without, _ = effective_policy(settings, spec, stored)
    policy, view = effective_policy(settings, RunSpec(run_id="r", prompt="", rules=tuple(own), limits=limits), stored)
    before, after = without.judge(judged).approval, policy.judge(judged).approval
    assert STRICT.index(after) >= STRICT.index(before)
    if limits.closed:
        assert after != "allow"
    assert [rule.text for rule in view.rules] == list(policy.rules)


async def test_a_run_is_limited_by_its_folder_and_its_header_says_so(stages: Stages, tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text('policy = "ask"\nrules = ["deny run_shell", "allow *"]\n[budget]\nsteps = 7')
    stage = await stages([call("run_python", code="1"), say("done")], read_limits=lambda _: read_limits(tmp_path))
    handle, _ = await stage.asking(policy="allow", rules=("allow run_shell",))
    with pytest.raises(InvalidArguments, match=r"^\.agent-kernel\.toml allows ask at most, not edit\."):
        await stage.conversation.switch_policy("edit")
    await stage.deny()
    result = await handle.wait()
    policy = result.run.policy
    assert (policy.mode, policy.folder_cap, result.run.budget.steps) == ("ask", "ask", 7)
    assert policy.limited_by == ".agent-kernel.toml: at most ask, 1 rule, 7 steps"
    assert [(rule.origin, rule.made_by) for rule in policy.rules] == [("folder", ".agent-kernel.toml"), ("code", None)]
    assert policy.notes[0].startswith(".agent-kernel.toml: the rule 'allow *' is not used")
    assert policy_words(result.run).endswith(f"limited by {policy.limited_by}")


@pytest.mark.parametrize("denied", [False, True], ids=["broken", "not to be looked into"])
async def test_where_the_file_is_broken_nothing_runs_unasked_not_even_a_read(
    stages: Stages, tmp_path: Path, denied: bool
) -> None:
    def limits(_: str | None) -> FolderLimits:
        if denied:
            raise PermissionError
        return read_limits(tmp_path)

    (tmp_path / FILE_NAME).write_text("policy =")
    stage = await stages([calls(call("look"), call("run_python", code="1")), say("done")], read_limits=limits)
    result = await stage.run("Go", NO, NO, policy="allow", rules=("allow *",))
    assert stage.executor.ran == []
    assert "nothing runs unasked" in result.run.policy.limited_by


async def test_a_run_that_goes_on_after_a_restart_stays_as_limited_as_it_was(tmp_path: Path) -> None:
    place, log = tmp_path / FILE_NAME, tmp_path / "log.sqlite"
    place.write_text('rules = ["deny run_shell"]\n[budget]\nsteps = 7')
    limits = {"read_limits": lambda _: read_limits(tmp_path)}
    with ScriptedModel([call("run_python", code="1"), call("run_shell", command="ls"), say("done")]) as model:
        first = await stage(model, log, **limits)
        await first.start(policy="allow", rules=("ask run_python",))
        await first.requests()
        await first.close()
        place.write_text('policy = "plan"')
        again = await stage(model, log, **limits)
        recovered = await again.runtime.recover(lambda *_: _executor(again))
        [(_, _, handle)] = recovered.continued
        result = await asyncio.wait_for(handle.wait(), 20)
        await again.close()
    assert result.run.policy.mode == "plan"
    assert [rule.text for rule in result.run.policy.rules] == ["deny run_shell", "ask run_python"]
    assert result.run.budget.steps == 7
    assert {one.state for one in result.tool_calls} <= {"denied", "invalid"}


async def _executor(one: Any) -> Any:
    return one.executor
