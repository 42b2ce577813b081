"""A notebook whose cells the agent reads, changes and runs, and a page that has it open, as the server sees them."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import nbformat
from tornado.websocket import WebSocketClientConnection

from agent_kernel.models.base import ModelTurn
from agent_kernel.testing import FakeOpenAI, call, say
from tests.server.client import Api, Kernel

ASK = "%%agent\nWhat is in the kernel?"
READ = call("read_notebook", call_id="read")
EDIT = call("edit_cell", cell_id="c1", source="x = 21\nx * 2")


class Notebook:
    """A notebook in the server's folder with the cells c1 and c2, whose kernel is the test's."""

    def __init__(self, api: Api, model: FakeOpenAI, kernel: Kernel, path: Path) -> None:
        self._api, self._model, self._kernel, self.path = api, model, kernel, path

    def write(self, **changed: Any) -> bytes:
        cells = [nbformat.v4.new_code_cell("x = 20", id="c1"), nbformat.v4.new_markdown_cell("# Title", id="c2")]
        for cell in cells:
            cell.update(nbformat.from_dict(changed.get(cell.id, {})))
        nbformat.write(nbformat.v4.new_notebook(cells=cells), self.path)
        return self.path.read_bytes()

    def cells(self) -> list[Any]:
        found: list[Any] = nbformat.read(self.path, as_version=4).cells
        return found

    async def ask(self, *turns: ModelTurn, reads: bool = True, decides: bool = True) -> str:
        """Have the model read the notebook and send these calls, which are approved; the conversation's id."""
        self._model.add(*([READ] if reads else []), *turns, say("Done."))
        conversation_id = await self._api.begin(self._kernel)
        for _ in turns if decides else ():
            await self.approve()
        return conversation_id

    async def until_asked(self) -> None:
        await self._api.next_approval()

    async def approve(self) -> Any:
        return await self._api.decide()

    async def ended(self, conversation_id: str) -> list[Any]:
        """The calls that change or run cells."""
        return [one for one in await self.calls(conversation_id) if one["tool_name"] != "read_notebook"]

    async def calls(self, conversation_id: str) -> list[Any]:
        calls: list[Any] = (await self._api.ended(conversation_id))["tool_calls"]
        return calls


async def undone(api: Api, conversation_id: str, way: str = "undo") -> dict[str, Any]:
    """Undo, or redo, the conversation's only run: by tool, why not, or `None`."""
    run_id = (await api.get("conversations", conversation_id))["runs"][0]["run_id"]
    status, answer = await api("POST", "conversations", conversation_id, "runs", run_id, way)
    assert status == 200
    return {one["tool_name"]: one["refusal"] for one in answer["changes"]}


class OpenPage:
    """A page as the server sees it: it has the notebook open, and what it is asked is done by the test."""

    def __init__(self, socket: WebSocketClientConnection) -> None:
        self._socket = socket
        self._left = False

    async def opens(self, *paths: str, **more: Any) -> None:
        if self._left:
            return
        notebooks = [{"path": path, "kernel_id": None, **more} for path in paths]
        await self._socket.write_message(json.dumps({"type": "notebooks", "notebooks": notebooks}))

    async def asked(self) -> Any:
        async with asyncio.timeout(30):
            frame = await self._socket.read_message()
        assert frame is not None
        return json.loads(frame)

    async def answers(self, request: Any, **answer: Any) -> None:
        await self._socket.write_message(json.dumps({"type": "answer", "request_id": request["request_id"], **answer}))

    async def shows(self, source: str, request: Any = None, **answer: Any) -> Any:
        """Answer a request, or the next one, with the cell c1 as it is here."""
        request = request or await self.asked()
        cell = {"cell_id": "c1", "cell_type": "code", "index": 0, "source": source}
        await self.answers(request, **{"cells": [cell], "total": 1, **answer})
        return request

    async def leave(self) -> None:
        if not self._left:
            self._left = True
            self._socket.close()
            async with asyncio.timeout(30):
                while await self._socket.read_message() is not None:
                    pass


OpenPages = Callable[..., Awaitable[OpenPage]]


async def edited_in(page: OpenPage, notebook: Notebook, turn: ModelTurn = EDIT) -> tuple[str, Any]:
    """Until the page has been asked to change the cell: the conversation's id, and the request."""
    conversation_id = await notebook.ask(turn, decides=False)
    for _ in range(2):  # read_notebook, and the card
        await page.shows("typed = 1")
    await notebook.approve()
    await page.shows("typed = 1")
    return conversation_id, await page.asked()
