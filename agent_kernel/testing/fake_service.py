"""A real HTTP server on the loopback address that answers as a model's service does, from a script.

It runs in a thread of its own, so that the code under test may block or use another event loop.
"""

import asyncio
import re
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ClassVar, Self

from aiohttp import web

from agent_kernel.models.base import ModelTurn
from agent_kernel.testing.scripted_model import ScriptMismatch
from agent_kernel.testing.wire.reply import Reply, failure

Scripted = ModelTurn | Reply | Callable[[dict[str, Any]], ModelTurn | Reply]
"""A turn, a whole HTTP answer (`agent_kernel.testing.wire`), or a function of the request's JSON."""


Page = dict[str, Any] | Reply | Callable[[dict[str, Any]], Any]
"""An answer on other paths: JSON, a whole HTTP answer, or a function of the request's JSON."""


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    path: str
    headers: Mapping[str, str]
    """The headers, with names in lower case."""
    body: dict[str, Any]


class FakeService:
    """Answers from a script and records the requests. Subclasses define which API is spoken on which path.

    As a context manager it starts, stops and raises `ScriptMismatch` if the script and the requests did not match;
    `repeat=True` begins the script again instead of failing. `pages` are answered on other paths, the list of models
    among them.
    """

    routes: ClassVar[Mapping[str, Callable[[ModelTurn], Reply]]] = {}
    """The paths of APIs, each with the function that encodes a turn."""

    def __init__(
        self,
        script: Iterable[Scripted] = (),
        *,
        port: int = 0,
        repeat: bool = False,
        pages: Mapping[str, Page] | None = None,
    ) -> None:
        self._script = list(script)
        self._port = port
        self._repeat = repeat
        self._position = 0
        self._said = 0  # how often the current entry was sent
        self._unexpected = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._closing: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._serve, name="fake-service", daemon=True)
        self._failure: BaseException | None = None
        self.requests: list[ReceivedRequest] = []
        self._pages: dict[str, Page] = {"/v1/models": {"object": "list", "data": [{"id": "fake", "object": "model"}]}}
        self._pages |= pages or {}
        self.asked: list[ReceivedRequest] = []
        """The requests on other paths."""
        self.wrong: list[str] = []
        """Descriptions of invalid requests."""
        self.abandoned = 0
        """The number of answers that the client abandoned."""

    @property
    def url(self) -> str:
        """The base URL with the version."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def address(self) -> str:
        """The base URL in the form that the provider's environment variable has."""
        return self.url

    def add(self, *scripted: Scripted, first: bool = False) -> None:
        """More answers, after those that are left, or `first`."""
        place = self._position if first else len(self._script)
        self._script[place:place] = scripted

    def clear(self) -> None:
        """Forget the script and the requests, for another test."""
        self._script, self._position, self._said, self._unexpected, self.abandoned = [], 0, 0, 0, 0
        for received in (self.requests, self.asked, self.wrong):
            received.clear()

    def start(self) -> Self:
        """Start the server. Raises `OSError` if the port is taken."""
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure
        return self

    def stop(self) -> None:
        if self._loop is not None and self._closing is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()

    def assert_consumed(self) -> None:
        if self.wrong:
            raise ScriptMismatch(f"The fake server was asked wrongly: {self.wrong[0]}")
        if self._unexpected:
            raise ScriptMismatch(f"The fake server was asked for {self._unexpected} more answers than were written.")
        left = len(self._script) - self._position
        if left and not self._repeat:
            raise ScriptMismatch(f"{left} of {len(self._script)} written answers were never asked for.")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
        if error is None:
            self.assert_consumed()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)
        if error is None:
            self.assert_consumed()

    def _serve(self) -> None:
        try:
            asyncio.run(self._run())
        except OSError as error:
            self._failure = error
        finally:
            self._ready.set()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        app = web.Application(client_max_size=2**28)
        for path in self.routes:
            app.router.add_post(path, self._complete)
        for path in self._pages:
            app.router.add_route("*", path, self._show)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        try:
            listener = socket.create_server(("127.0.0.1", self._port))
            await web.SockSite(runner, listener).start()
            self._port = listener.getsockname()[1]
            self._ready.set()
            await self._closing.wait()
            # asyncio loses a connection that it has accepted but not set up when its server is closed.
            self._loop.remove_reader(listener)
            for _ in range(3):
                await asyncio.sleep(0)
        finally:
            # A connection that a client left in the middle of an answer would first send the rest.
            left = [one.transport for one in (runner.server.connections if runner.server is not None else ())]
            await runner.cleanup()
            for transport in left:
                if transport is not None:
                    transport.abort()
            await asyncio.sleep(0)  # connections that were dropped close in the next round of the loop

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.requests.append(ReceivedRequest(request.path, headers, body))
        reply = self.answer(request.path, headers, body)
        try:
            return await self._send(request, reply)
        except asyncio.CancelledError:
            self.abandoned += 1
            raise
        except ConnectionResetError:
            self.abandoned += 1
            return web.Response()  # nobody reads it; an error would be logged with its traceback

    def answer(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Reply:  # noqa: ARG002 -- others use them
        """The answer to a request: the script's next entry."""
        return self._next(body, self.routes[path])

    async def _show(self, request: web.Request) -> web.StreamResponse:
        body = await request.json() if request.can_read_body else {}
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.asked.append(ReceivedRequest(request.path, headers, body))
        page = self._pages[request.path]
        answer = page(body) if callable(page) else page
        return await self._send(request, answer) if isinstance(answer, Reply) else web.json_response(answer)

    def _next(self, body: dict[str, Any], streamed: Callable[[ModelTurn], Reply]) -> Reply:
        if self._position >= len(self._script):
            self._unexpected += 1
            return failure(400, "the script of the fake server has no more answers")
        scripted = self._script[self._position]
        answer = scripted if isinstance(scripted, ModelTurn | Reply) else scripted(body)
        reply = streamed(answer) if isinstance(answer, ModelTurn) else answer
        self._said += 1
        if self._said >= reply.times:
            self._said = 0
            self._position += 1
            if self._repeat:
                self._position %= len(self._script)
        return reply

    async def _send(self, request: web.Request, reply: Reply) -> web.StreamResponse:
        response = web.StreamResponse(status=reply.status, headers=reply.headers)
        response.content_type = reply.content_type
        end = min(size for size in (reply.cut_after, reply.hang_after, len(reply.body)) if size is not None)
        if reply.hang_after == 0:
            await self._silence()
        await response.prepare(request)
        for piece in _pieces(reply.body[:end], reply.split_every):
            await response.write(piece)
            await asyncio.sleep(reply.pause)  # lets the event loop send each piece separately
        if reply.hang_after is not None:
            await self._silence()
        if reply.cut_after is not None and request.transport is not None:
            request.transport.abort()
            return response
        await response.write_eof()
        return response

    async def _silence(self) -> None:
        assert self._closing is not None
        await self._closing.wait()


def _pieces(body: bytes, size: int | None) -> Iterator[bytes]:
    if size is not None:
        return (body[start : start + size] for start in range(0, len(body), size))
    return (found.group() for found in re.finditer(rb".*?\n\n|.+", body, re.DOTALL))
