"""Identifiers. Each is its own type, so that a checker refuses a run's id where a call's is wanted."""

import secrets
import uuid
from typing import NewType

ConversationId = NewType("ConversationId", str)
RunId = NewType("RunId", str)
MessageId = NewType("MessageId", str)
ToolCallId = NewType("ToolCallId", str)
ApprovalId = NewType("ApprovalId", str)


def new_conversation_id() -> ConversationId:
    return ConversationId(f"conv_{uuid.uuid4().hex}")


def new_run_id() -> RunId:
    return RunId(f"run_{uuid.uuid4().hex}")


def new_message_id() -> MessageId:
    return MessageId(f"msg_{uuid.uuid4().hex}")


def new_tool_call_id() -> ToolCallId:
    """For a call whose model sent no id, or one that can't be kept. Either is unique in its conversation only."""
    return ToolCallId(f"call_{uuid.uuid4().hex}")


def new_pause_id() -> str:
    return f"pause_{uuid.uuid4().hex}"


def new_question_id() -> str:
    return f"ask_{uuid.uuid4().hex}"


def new_approval_id() -> ApprovalId:
    """Unguessable: whoever can name an approval could answer it. It is what a call goes by where other conversations'
    calls are; the kernel learns it with the approved call."""
    return ApprovalId(f"apr_{secrets.token_hex(16)}")
