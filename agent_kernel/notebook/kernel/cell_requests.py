"""Reads requests to run a cell, and watches for new ones while the main thread is busy.

A thread of ipykernel's reads the shell channel and passes requests on. `shell_channel_thread` and its handler are
undocumented: they are used only here.
"""

import hmac
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

MAX_CELL_ID = 200
NEW_CONVERSATION = "agentKernelNewConversation"
"""A key in the metadata of such a request. Our JupyterLab extension writes it."""
_SIGNED = slice(1, 5)
"""The frames of a message that its signature covers: header, parent header, metadata, content."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CellRequest:
    """One request to run a cell."""

    cell_id: str
    message_id: str
    page: str = ""
    """The client session that sent it: each notebook in each page has its own."""
    new_conversation: bool = False
    """Whether its prompt shall begin a new conversation: a button in the page says so."""
    deleted: frozenset[str] = field(default=frozenset(), compare=False)
    """The other cells that were deleted before it was sent."""


def read_request(header: Any, metadata: Any) -> CellRequest | None:
    """The request to run a cell that a message is, or `None`. Messages come from the front end and are not trusted."""
    if not isinstance(header, dict) or not isinstance(metadata, dict) or header.get("msg_type") != "execute_request":
        return None
    cell_id, message_id = metadata.get("cellId"), header.get("msg_id")
    page = header.get("session")
    if not _is_id(cell_id) or not isinstance(message_id, str):
        return None
    is_new = metadata.get(NEW_CONVERSATION) is True
    return CellRequest(cell_id, message_id, page if _is_id(page) else "", is_new, read_deleted(metadata) - {cell_id})


def read_deleted(metadata: Any) -> frozenset[str]:
    """The cells that were deleted before a message was sent."""
    deleted = metadata.get("deletedCells") if isinstance(metadata, dict) else None
    return frozenset(filter(_is_id, deleted)) if isinstance(deleted, list) else frozenset()


def _is_id(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and 0 < len(value) <= MAX_CELL_ID


def read_frames(session: Any, frames: Sequence[Any]) -> CellRequest | None:
    """As `read_request`, for the raw frames of a message. Its handler reads them again: `Session.deserialize` accepts
    each message only once."""
    try:
        _, parts = session.feed_identities(frames, copy=False)
        if b"cellId" not in (metadata := parts[3].bytes):
            return None
        request = read_request(session.unpack(parts[1].bytes), session.unpack(metadata))
        signed = [part.bytes for part in parts[_SIGNED]]
        return request if hmac.compare_digest(parts[0].bytes, session.sign(signed)) else None
    except (ValueError, LookupError, AttributeError):
        return None  # the kernel reports what is wrong with it


def watch_requests(kernel: Any, on_request: Callable[[CellRequest], None]) -> None:
    """Have `on_request` called for each request to run a cell, in the thread that reads the channel, if there is one.

    For any thread.
    """
    thread = getattr(kernel, "shell_channel_thread", None)
    if thread is None:  # a kernel that is embedded in a program
        return
    pass_on = kernel.shell_channel_thread_main

    def receive(frames: Sequence[Any]) -> Any:
        try:
            request = read_frames(kernel.session, frames)
            if request is not None:
                on_request(request)
        except Exception:  # noqa: BLE001 -- the message must reach the kernel
            _log.warning("A request to run a cell again could not be read.", exc_info=True)
        return pass_on(frames)

    thread.io_loop.add_callback(lambda: kernel.shell_stream.on_recv(receive, copy=False))
