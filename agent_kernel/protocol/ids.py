"""Identifiers: their types where they come from another program, and their generators."""

import secrets
import uuid
from typing import Annotated

from pydantic import Field

CellId = Annotated[str, Field(max_length=200)]
Identifier = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,200}$")]
"""An id from a kernel. Its characters are restricted because it goes into URLs, frames and the server's log."""


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
