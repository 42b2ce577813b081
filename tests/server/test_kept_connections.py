"""A browser keeps its connection to the server for the next request; the server keeps nothing of the last one."""

from typing import Any

import pytest
from jupyter_server import CallContext
from tornado.iostream import IOStream

from agent_kernel_server.requests import AgentKernelHandler
from tests.server.client import Api


async def test_what_the_event_loop_writes_on_later_does_not_hold_who_answered(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer of megabytes is too long for the line: the event loop writes the rest in the context of the first
    piece, and keeps that context for the next request."""
    writers: list[Any] = []
    write = IOStream.write

    def noted(stream: IOStream, data: Any) -> Any:
        writers.append(CallContext.get(CallContext.JUPYTER_HANDLER))
        return write(stream, data)

    monkeypatch.setattr(IOStream, "write", noted)
    status, _ = await api("GET", "conversations")
    assert status == 200
    assert len(writers) > 1, "the request and its answer"
    assert not [handler for handler in writers if isinstance(handler, AgentKernelHandler)]
