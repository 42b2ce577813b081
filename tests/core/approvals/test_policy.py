"""Policy: deny > ask > allow, default ask, fail closed."""

from dataclasses import replace
from typing import Any

import pytest

from agent_kernel.approvals.policy import Policy
from agent_kernel.approvals.rules import JudgedCall
from agent_kernel.errors import ConfigurationError
from agent_kernel.protocol.vocabulary import Approval, PolicyMode


def judged(
    tool: str = "run_shell", declared: Approval = "ask", *, unknown: bool = False, **arguments: Any
) -> JudgedCall:
    return JudgedCall(tool, arguments, "d" * 64, declared, read_only=declared == "allow", always_asks=unknown)


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (["allow run_shell"], "allow"),
        (["allow run_shell", "ask run_shell"], "ask"),
        (["allow run_shell", "ask *", 'deny run_shell where command matches "curl *"'], "deny"),
        (['allow run_shell where command is "git status"'], "ask"),
    ],
)
def test_deny_beats_ask_beats_allow(rules: list[str], expected: Approval) -> None:
    assert Policy(rules).judge(judged(command="curl -s example.com")).approval == expected


def test_what_a_tools_own_check_refuses_is_not_said_to_be_forbidden_as_a_whole() -> None:
    found = Policy().judge(replace(judged(declared="deny"), checks_itself=True))
    assert found.reason == "The check of run_shell itself refused these arguments. Others may pass."
    assert "never to be run" in (Policy().judge(judged(declared="deny")).reason or "")


MODES: dict[PolicyMode, dict[Approval, Approval]] = {
    "deny": {"allow": "deny", "ask": "deny", "deny": "deny"},
    "plan": {"allow": "allow", "ask": "deny", "deny": "deny"},
    "ask": {"allow": "allow", "ask": "ask", "deny": "deny"},
    "edit": {"allow": "allow", "ask": "ask", "deny": "deny"},
    "allow": {"allow": "allow", "ask": "allow", "deny": "deny"},
}


@pytest.mark.parametrize("mode", MODES)
def test_each_mode(mode: PolicyMode) -> None:
    judge = Policy(default=mode).judge
    assert {declared: judge(judged(declared=declared)).approval for declared in MODES[mode]} == MODES[mode]


def test_the_mode_edit_writes_files_in_the_folder_and_rules_that_ask_or_deny_still_win() -> None:
    edits = JudgedCall("edit_file", {"path": "a.csv"}, "d", "ask", read_only=False, edits_in_folder=True)
    assert [Policy(default=mode).judge(edits).approval for mode in ("edit", "ask", "plan")] == ["allow", "ask", "deny"]
    assert Policy(['ask edit_file where path matches "*.csv"'], "edit").judge(edits).approval == "ask"
    assert Policy(["deny edit_file"], "edit").judge(edits).approval == "deny"
    assert Policy(default="edit").judge(replace(edits, always_asks=True)).approval == "ask"
    assert Policy(default="edit").judge(replace(edits, declared="deny")).approval == "deny"


def test_modes_have_an_order_and_a_cap_holds_in_it() -> None:
    order = [*MODES]
    for place, mode in enumerate(order):
        assert [Policy(default=mode).capped(cap).default for cap in order] == [*order[:place], *[mode] * (5 - place)]


@pytest.mark.parametrize("mode", ["plan", "deny"])
@pytest.mark.parametrize("rule", ["ask run_shell", "allow run_shell"])
def test_no_rule_opens_a_mode_that_never_acts(mode: PolicyMode, rule: str) -> None:
    assert Policy([rule], mode).judge(judged()).approval == "deny"


@pytest.mark.parametrize("text", ["", "permit run_shell", "allow", "allow run shell", "deny x where"])
def test_a_rule_that_is_not_understood_is_refused_not_ignored(text: str) -> None:
    with pytest.raises(ConfigurationError, match="not understood"):
        Policy([text])


def test_a_call_that_may_have_run_before_is_never_approved_by_a_rule_or_a_mode() -> None:
    assert Policy(["allow *"], "allow").judge(judged(unknown=True)).approval == "ask"
