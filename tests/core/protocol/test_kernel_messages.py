"""What a kernel sends is another program's word: it is bounded, and read as one of the known messages or not at all."""

from typing import Any

import pytest
from pydantic import ValidationError

from agent_kernel.protocol.kernel import (
    Collected,
    Declared,
    GiveVerdict,
    PreviewCall,
    Reply,
    read_reply,
)
from agent_kernel.protocol.kernel_events import read_event

DECLARATION = {"run_id": "run_x", "conversation_id": "conv_x", "prompt": "Go."}
ODD_FIELDS: list[dict[str, Any]] = [
    *({"conversation_id": "a/../b"}, {"rules": ["deny *"] * 201}, {"rules": ["x" * 10_001]}, {"cell_id": "x" * 201}),
    *({"replaces": ["run_y"] * 101}, {"cells_before": ["x"] * 21}, {"tools": [{"name": "t", "description": "d"}]}),
]


ASK = {"event": "ask", "question_id": "ask_x"}


@pytest.mark.parametrize(
    "content",
    [
        *({}, {"event": "teleport"}, {"event": "announce"}),
        *({"event": "announce", "run_id": odd} for odd in ("run_x\nforged", "../status", "x" * 201)),
        {"event": "cancel", "run_id": "run_x", "cause": "because"},
        *(ASK, ASK | {"topic": "undo"}),
        ASK | {"topic": "approve", "approval_id": "apr_x"},
        ASK | {"topic": "interrupt", "seconds": float("nan")},
    ],
)
def test_an_event_that_does_not_fit_is_none(content: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        read_event(content)


@pytest.mark.parametrize(
    ("reply_type", "content"),
    [
        (Declared, {}),
        *((Declared, {"declaration": DECLARATION | odd}) for odd in ODD_FIELDS),
        (GiveVerdict.reply_type(), {"value": {"approval": "maybe"}}),
        (PreviewCall.reply_type(), {"value": {"diff": "x" * 200_001}}),
        (PreviewCall.reply_type(), {"value": {"warnings": [{"title": "x" * 1_001}]}}),
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
