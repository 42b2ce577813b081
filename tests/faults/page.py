"""A notebook's page without a browser: it sends what JupyterLab sends to the kernel, and comes and goes."""

import asyncio
import contextlib
import json
import uuid
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.faults.server import Server
from tests.waiting import look_until


@dataclass
class Asked:
    """A request to run a cell, and what came of it."""

    printed: str = ""
    error: str | None = None
    status: str | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class Page:
    def __init__(self, server: Server, kernel: str) -> None:
        self.kernel = kernel
        self._server = server
        self._asked: dict[str, Asked] = {}
        self._session = ""
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._reading: asyncio.Task[None] | None = None

    async def open(self) -> None:
        self._session = uuid.uuid4().hex
        self._socket = await self._server.connect(f"api/kernels/{self.kernel}/channels?session_id={self._session}")
        self._reading = asyncio.create_task(self._read(self._socket))

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        if self._socket is not None:
            await self._socket.close()

    async def reload(self) -> None:
        """Without saving: what the last page has asked goes on, and nobody hears of it."""
        await self.close()
        await self.open()

    async def run(self, cell_id: str, code: str, deleted: list[str] | None = None) -> Asked:
        """Ask for a cell to be run, as JupyterLab does."""
        assert self._socket is not None
        message_id = uuid.uuid4().hex
        header = {"msg_id": message_id, "msg_type": "execute_request", "session": self._session}
        header |= {"username": "page", "version": "5.3", "date": "2026-01-01T00:00:00Z"}
        metadata = {"cellId": cell_id, "deletedCells": deleted or [], "trusted": True, "recordTiming": False}
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}}
        content |= {"allow_stdin": True, "stop_on_error": True}
        message = {"header": header, "parent_header": {}, "metadata": metadata, "content": content, "buffers": []}
        asked = self._asked[message_id] = Asked()
        await self._socket.send_str(json.dumps({"channel": "shell", **message}))
        return asked

    async def prints(self, code: str) -> str:
        """What a cell prints. One that is aborted with the cells behind an error is asked for again."""
        while True:
            asked = await self.run(uuid.uuid4().hex, code)
            async with asyncio.timeout(60):
                await asked.ended.wait()
            if asked.status == "ok":
                return asked.printed

    async def interrupt(self) -> None:
        """The toolbar's button."""
        status, answer = await self._server.ask("POST", f"api/kernels/{self.kernel}/interrupt")
        assert status == 204, answer

    async def until_printed(self, asked: Asked, text: str) -> None:
        async def look() -> bool:
            return text in asked.printed or asked.ended.is_set()

        await look_until(look, f"a cell to print {text!r}")

    async def _read(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        async for message in socket:
            if message.type is aiohttp.WSMsgType.TEXT:
                with contextlib.suppress(KeyError):
                    self._hear(json.loads(message.data))

    def _hear(self, message: dict[str, Any]) -> None:
        content, kind = message["content"], message["header"]["msg_type"]
        asked = self._asked[message["parent_header"]["msg_id"]]
        if kind == "stream":
            asked.printed += content["text"]
        elif kind == "execute_reply":
            asked.status, asked.error = content["status"], content.get("ename")
            asked.ended.set()
