"""Generators of identifiers."""

import secrets
import uuid


def new_conversation_id() -> str:
    return f"conv_{uuid.uuid4().hex}"


def new_run_id() -> str:
    return f"run_{uuid.uuid4().hex}"


def new_message_id() -> str:
    """Unique within its conversation only."""
    return f"msg_{secrets.token_hex(8)}"


def new_tool_call_id() -> str:
    """An id for a call to which the model gave none, or an unusable one. Unique within its conversation only."""
    return f"call_{uuid.uuid4().hex}"


def new_pause_id() -> str:
    return f"pause_{uuid.uuid4().hex}"


def new_question_id() -> str:
    return f"ask_{uuid.uuid4().hex}"


def new_approval_id() -> str:
    """A random id that can't be guessed, because whoever knows it could try to answer the approval. It identifies a
    call across conversations; the kernel gets it with the approved call."""
    return f"apr_{secrets.token_hex(16)}"
