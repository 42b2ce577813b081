"""Identifier types and their generators. Each kind is its own type, so that a type checker tells them apart."""

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
    """An id for a call to which the model gave none, or an unusable one. Unique within its conversation only."""
    return ToolCallId(f"call_{uuid.uuid4().hex}")


def new_pause_id() -> str:
    return f"pause_{uuid.uuid4().hex}"


def new_question_id() -> str:
    return f"ask_{uuid.uuid4().hex}"


def new_approval_id() -> ApprovalId:
    """A random id that can't be guessed, because whoever knows it could try to answer the approval. It identifies a
    call across conversations; the kernel gets it with the approved call."""
    return ApprovalId(f"apr_{secrets.token_hex(16)}")
