"""Somebody between a Jupyter server and its gateway: the line can be cut, and frames can be slipped in."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Self

import aiohttp
from aiohttp import web

FRAME_BYTES = 64 * 1024 * 1024
OPENS_WITHIN = 60
HOP_BY_HOP = ("Host", "Content-Length", "Transfer-Encoding", "Content-Encoding", "Connection")


class Middleman:
    """Runs in a thread of its own; its methods are for the test's."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="middleman", daemon=True)
        self._away = False
        self._lines: dict[tuple[str, str], web.WebSocketResponse] = {}
        """By the kernel's id and the session's."""
        self.asked: list[str] = []
        """The frames of the server, as they went to the gateway."""
        self.url = ""

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._start())
        return self

    def __exit__(self, *error: object) -> None:
        self._do(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self) -> None:
        """The gateway is away: lines are lost, new ones refused."""
        self._do(self._cut())

    def join(self) -> None:
        """The gateway is back."""
        self._away = False

    def say(self, kernel_id: str, page: str, *frames: str | bytes) -> None:
        """Send frames to the server's extension as if this kernel's gateway sent them. `page` is the session of the
        page, whose line is another."""
        self._do(self._say(kernel_id, page, frames))

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(120)

    async def _start(self) -> None:
        self._client = aiohttp.ClientSession(auto_decompress=False)
        app = web.Application(client_max_size=FRAME_BYTES)
        app.router.add_route("*", "/{path:.*}", self._pass_on)
        self._runner = web.AppRunner(app, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def _stop(self) -> None:
        await self._cut()
        await self._client.close()
        await self._runner.cleanup()

    async def _cut(self) -> None:
        self._away = True
        for line in list(self._lines.values()):
            await line.close()

    async def _say(self, kernel_id: str, page: str, frames: tuple[str | bytes, ...]) -> None:
        async with asyncio.timeout(OPENS_WITHIN):
            while len(lines := self._lines_of(kernel_id, page)) != 1:  # noqa: ASYNC110 -- lines come and go
                await asyncio.sleep(0.05)
        for frame in frames:
            await (lines[0].send_str(frame) if isinstance(frame, str) else lines[0].send_bytes(frame))

    def _lines_of(self, kernel_id: str, page: str) -> list[web.WebSocketResponse]:
        return [line for (kernel, session), line in self._lines.items() if kernel == kernel_id and session != page]

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        if self._away:
            assert request.transport is not None
            request.transport.abort()
            raise ConnectionResetError
        headers = {name: value for name, value in request.headers.items() if name not in HOP_BY_HOP}
        if request.headers.get("Upgrade", "").lower() == "websocket":
            return await self._pass_frames_on(request)
        async with self._client.request(
            request.method, f"{self._target}{request.path_qs}", headers=headers, data=await request.read()
        ) as answer:
            kept = {name: value for name, value in answer.headers.items() if name not in HOP_BY_HOP}
            return web.Response(status=answer.status, headers=kept, body=await answer.read())

    async def _pass_frames_on(self, request: web.Request) -> web.StreamResponse:
        place = request.path.split("/")[3], request.query.get("session_id", "")
        headers = {"Authorization": request.headers["Authorization"]}
        address = f"{self._target}{request.path_qs}"
        try:
            async with self._client.ws_connect(address, headers=headers, max_msg_size=FRAME_BYTES) as gateway:
                line = self._lines[place] = web.WebSocketResponse(max_msg_size=FRAME_BYTES)
                await line.prepare(request)
                back = asyncio.create_task(_pump(gateway, line))
                async for message in line:
                    self.asked.append(message.data)
                    await gateway.send_str(message.data)
                back.cancel()
        except aiohttp.WSServerHandshakeError as refusal:
            return web.Response(status=refusal.status)
        if self._lines[place] is line:
            del self._lines[place]
        return line


async def _pump(source: aiohttp.ClientWebSocketResponse, sink: web.WebSocketResponse) -> None:
    async for message in source:
        await sink.send_str(message.data)
    await sink.close()
