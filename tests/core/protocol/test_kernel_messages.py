"""What a kernel sends is another program's word: it is bounded, and read as one of the known messages or not at all."""

from typing import Any

import pytest
from pydantic import ValidationError

from agent_kernel.protocol.decisions import ScriptedDecision
from agent_kernel.protocol.kernel import (
    CallEnd,
    Collected,
    Declared,
    GiveVerdict,
    ListChanges,
    PreviewCall,
    Refused,
    Reply,
    RunDeclaration,
    read_reply,
)
from agent_kernel.protocol.kernel_events import (
    AskMetrics,
    AskUndo,
    AskUndoRun,
    AskUsage,
    CallEnded,
    RunAnnounced,
    read_event,
)
from agent_kernel.protocol.tools import ToolDeclaration
from agent_kernel.protocol.vocabulary import BudgetLimits

DECLARATION = {"run_id": "run_x", "conversation_id": "conv_x", "prompt": "Go."}
OUTPUT = {"kind": "stream", "name": "stdout", "text": "x"}


@pytest.mark.parametrize(
    "message",
    [
        RunAnnounced(run_id="run_x", conversation_id="conv_x", through_gateway=True),
        CallEnded(approval_id="apr_x", end=CallEnd(status="success", text="x")),
        AskUsage(question_id="ask_x", days=7),
        AskMetrics(question_id="ask_x", days=7),
        AskUndo(question_id="ask_x", approval_id="apr_x"),
        AskUndoRun(question_id="ask_x", run_id="run_x"),
    ],
)
def test_an_event_is_read_as_it_was_sent(message: Any) -> None:
    assert read_event(message.model_dump(mode="json")) == message


def test_a_reply_is_of_the_requests_type_or_a_refusal() -> None:
    assert read_reply({"ok": True}, Reply) == Reply()
    assert read_reply({"ok": False, "error": "no"}, Reply) == Refused(error="no")
    assert read_reply({}, Reply) == Refused()


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"event": "teleport"},
        {"event": "announce"},
        {"event": "announce", "run_id": "run_x\nforged"},
        {"event": "announce", "run_id": "../status"},
        {"event": "announce", "run_id": "x" * 201},
        {"event": "output", "approval_id": "x", "index": -1, "output": OUTPUT},
        {"event": "output", "approval_id": "x", "index": 0, "output": {"kind": "script"}},
        {"event": "cancel", "run_id": "run_x", "cause": "because"},
        {"event": "ask", "question_id": "ask_x"},
        {"event": "ask", "question_id": "ask_x", "topic": "approve", "approval_id": "apr_x"},
        {"event": "ask", "question_id": "ask_x", "topic": "usage", "days": 10**9},
        {"event": "ask", "question_id": "ask_x", "topic": "undo"},
        {"event": "ask", "question_id": "ask_x", "topic": "interrupt", "seconds": float("nan")},
    ],
)
def test_an_event_that_does_not_fit_is_none(content: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        read_event(content)


@pytest.mark.parametrize(
    ("reply_type", "content"),
    [
        (Declared, {}),
        (Declared, {"declaration": DECLARATION | {"conversation_id": "a/../b"}}),
        (Declared, {"declaration": DECLARATION | {"rules": ["deny *"] * 201}}),
        (Declared, {"declaration": DECLARATION | {"rules": ["x" * 10_001]}}),
        (Declared, {"declaration": DECLARATION | {"replaces": ["run_y"] * 101}}),
        (Declared, {"declaration": DECLARATION | {"cell_id": "x" * 201}}),
        (Declared, {"declaration": DECLARATION | {"cells_before": ["x"] * 21}}),
        (Declared, {"declaration": DECLARATION | {"tools": [{"name": "t", "description": "d"}]}}),
        (GiveVerdict.reply_type(), {"value": {"approval": "maybe"}}),
        (ListChanges.reply_type(), {"value": [{"approval_id": "apr_x", "state": "changed"}] * 201}),
        (PreviewCall.reply_type(), {"value": {"diff": "x" * 200_001}}),
        (PreviewCall.reply_type(), {"value": {"warnings": [{"title": "x" * 1_001}]}}),
        (Collected, {"state": "done", "end": {"status": "approved", "text": "x"}}),
        (Collected, {"state": "done", "end": {"status": "success", "undo": "x" * 41}}),
    ],
)
def test_a_reply_that_does_not_fit_is_none(reply_type: type[Reply], content: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        read_reply({"ok": True, **content}, reply_type)


def test_an_event_that_does_not_fit_is_not_quoted() -> None:
    with pytest.raises(ValidationError) as refused:
        read_event({"event": "announce", "run_id": "hunter2 !"})
    assert "hunter2" not in str(refused.value)


def test_a_declaration_is_read_as_it_was_sent() -> None:
    tool = ToolDeclaration("t", "Does it.", {"type": "object", "properties": {"x": {"default": None}}}, timeout=3.5)
    script = (ScriptedDecision(approved=False, reason="no"), ScriptedDecision(approved=True, edited_input={"x": None}))
    run = RunDeclaration(**DECLARATION, budget=BudgetLimits(usd=0), tools=(tool,), script=script, continues=0)
    sent = Declared(declaration=run)
    assert read_reply(sent.model_dump(mode="json"), Declared) == sent
