"""The route of MCP, and the way from Tornado to the package's ASGI app.

Jupyter authenticates and authorizes each request before the app sees it, as on every route. The app sees neither tokens
nor cookies.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from contextvars import Context
from typing import Any, ClassVar

from tornado.iostream import StreamClosedError
from tornado.web import HTTPError

from agent_kernel.errors import LogUnavailable
from agent_kernel_server.identity import Action, may
from agent_kernel_server.mcp_server.outside_calls import STOPS, ClientCalls, Message
from agent_kernel_server.streams import StreamHandler

OURS = frozenset({"authorization", "cookie", "x-xsrftoken"})
"""Headers that are for Jupyter alone."""


class McpHandler(StreamHandler):
    """Streamable HTTP. What a tool may do is decided by the tool."""

    actions: ClassVar[Mapping[str, Action]] = {"GET": "read", "POST": "read", "DELETE": "read"}

    async def get(self) -> None:
        self._unread: bytes | None = self.body
        calls = self.service.client_calls
        app = await calls.app()
        from agent_kernel_server.mcp_server.offered import CALLER, Request

        self._gone = asyncio.Event()
        asked = Request(self.person, await may(self, "execute"))
        answering = app(self._scope() | {CALLER: asked}, self._receive, self._send)
        # In the context of the service's tasks the package's own keep no request.
        serving = self.service.tasks.spawn(_until_closed(calls, answering), "request of MCP")
        try:
            with self.watched():
                await asyncio.wait({serving})
        finally:
            serving.cancel()
        if not serving.cancelled():
            serving.result()  # raises what went wrong
        connection: Any = self.request.connection
        if not self._headers_written and not connection.stream.closed():  # it was ended from here
            if self.refused:
                raise HTTPError(403)
            raise LogUnavailable(STOPS)
        if self._finished and not self._gone.is_set():  # else the client has not got the whole answer
            calls.sent(asked.delivers)

    post = delete = get

    def _scope(self) -> dict[str, Any]:
        from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
        from mcp.server.auth.provider import AccessToken

        request = self.request
        headers = [
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in request.headers.get_all()
            if name.lower() not in OURS
        ]
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": request.protocol,
            "path": request.path,
            "raw_path": request.path.encode(),
            "query_string": request.query.encode(),
            "root_path": "",
            "headers": headers,
            "client": None,
            "server": None,
            # Whose session it is: another user can't go on with it.
            "user": AuthenticatedUser(AccessToken(token="", client_id=self.person or "", scopes=[])),
        }

    async def _receive(self) -> Message:
        if self._unread is not None:
            body, self._unread = self._unread, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if self._gone.is_set() or self._finished:
            return
        if message["type"] == "http.response.start":
            self.set_status(message["status"])
            self._content_type = ""
            for name, value in message["headers"]:
                if name.lower() == b"content-type":
                    self._content_type = value.decode("latin-1")
                if name.lower() != b"content-length":  # Tornado's own, where the whole is known
                    self.set_header(name.decode("latin-1"), value.decode("latin-1"))
            return
        self.write(message.get("body", b""))
        if not message.get("more_body", False):
            Context().run(self.finish, set_content_type=self._content_type)
            return
        try:
            await self.flush()
        except StreamClosedError:
            self._gone.set()

    def close(self) -> None:
        """The client has gone or lost its right, or the server stops. Calls go on."""
        if hasattr(self, "_gone"):
            self._gone.set()


async def _until_closed(calls: ClientCalls, answering: Coroutine[Any, Any, None]) -> None:
    """Sessions that end before or under a request fail in the package's own ways: the client is told to ask again."""
    try:
        await answering
    except Exception:
        if not calls.closed:
            raise
