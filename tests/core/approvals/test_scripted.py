"""Scripts of decisions: what they cover, in which order, and what they say of a call that they do not cover."""

from typing import Any

import pytest

import agent_kernel as ak
from agent_kernel.approvals import scripted
from agent_kernel.approvals.scripted import Script, ScriptedDecision, answer, approve, deny, edit, script
from agent_kernel.errors import ConfigurationError, ToolDeclarationError
from agent_kernel.protocol.views import ToolCallView
from agent_kernel.tools.arguments import canonical, digest
from agent_kernel.tools.function import as_tool
from tests.core.record.record_examples import a_call


def called(tool: str, **arguments: Any) -> ToolCallView:
    return a_call(tool=tool, arguments=arguments, digest=digest(canonical(arguments)))


ONE, NINE = called("run_python", code="x = 1"), called("run_python", code="x = 9")


def test_short_forms_become_decisions() -> None:
    assert script([True, "why", (False, "no"), ("t", True), ("t", False, "no"), approve("t")]) == (
        ScriptedDecision(True),
        ScriptedDecision(False, reason="why"),
        ScriptedDecision(False, reason="no"),
        ScriptedDecision(True, "t"),
        ScriptedDecision(False, "t", "no"),
        ScriptedDecision(True, "t"),
    )
    assert scripted.approve_all(times=2) == (ScriptedDecision(True),) * 2
    assert set(scripted.deny_all("no")) == {ScriptedDecision(False, reason="no")}


@ak.tool(name="drop_rows")
def drop(table: str) -> int:
    """Delete rows."""
    return len(table)


def test_a_decision_names_its_tool_by_name_function_or_object() -> None:
    for tool in ("drop_rows", drop, as_tool(drop)):
        assert ak.approve(tool, {"table": "t"}) == ak.approve(tool=tool, arguments={"table": "t"})
        assert ak.approve(tool, {"table": "t"}) == ScriptedDecision(True, "drop_rows", arguments={"table": "t"})
        assert ak.deny("no", tool) == ak.deny(reason="no", tool=tool) == ScriptedDecision(False, "drop_rows", "no")
        edited = ScriptedDecision(True, "drop_rows", edited_input={"table": "t"})
        assert ak.edit({"table": "t"}, tool) == ak.edit(arguments={"table": "t"}, tool=tool) == edited
        assert ak.answer("x", tool) == ak.answer(text="x", tool=tool) == ScriptedDecision(True, "drop_rows", answer="x")
    with pytest.raises(ToolDeclarationError):
        ak.approve(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [True, "all", [1], [("a", "b")], [None], [approve()] * 1_001])
def test_what_is_no_script_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError):
        script(wrong)


def test_a_decision_is_for_its_tool_its_arguments_or_its_digest() -> None:
    by_arguments = approve("run_python", {"code": "x = 9"})
    by_digest = ScriptedDecision(True, "run_python", digest=ONE.digest)
    assert Script([by_arguments]).take(ONE, question=False) is None
    assert Script([by_arguments, by_digest]).take(ONE, question=False) == by_digest
    assert Script([by_arguments, by_digest]).take(NINE, question=False) == by_arguments
    assert Script([ScriptedDecision(True, "other", digest=ONE.digest)]).take(ONE, question=False) is None


def test_questions_take_answers_and_calls_take_none() -> None:
    asked = called("ask_user", question="Which?")
    reply = answer("The first.")
    assert Script([approve(), deny(), reply]).take(asked, question=True) == reply
    assert Script([reply, approve()]).take(ONE, question=False) == approve()
    assert Script([deny("Not now.", "ask_user")]).take(asked, question=True) == deny("Not now.", "ask_user")


def test_what_was_used_before_an_interruption_is_not_used_again() -> None:
    changed = edit({"code": "x = 2"}, "run_python")
    left = Script([approve(), changed, deny("no", "run_python"), answer("Yes.")])
    left.note_used(called("run_python", code="x = 2"), approved=True, edited=True, question=False)
    left.note_used(ONE, approved=False, edited=False, question=False)
    left.note_used(called("ask_user", question="?"), approved=True, edited=False, question=True)
    assert left.take(ONE, question=False) == approve()
    assert left.take(ONE, question=False) is None
