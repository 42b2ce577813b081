"""A page of JupyterLab without a browser that has a notebook open: it does what the server asks of its cells, as
`widgets/lab/src/cells.ts` does, but is slow, hangs or goes away, before or after it has done it."""

import asyncio
import contextlib
import json
import random
from collections import Counter
from typing import Any

import aiohttp

from tests.faults.page import Asked, Page
from tests.faults.server import Server
from tests.waiting import look_until

Cell = dict[str, Any]
HANGS_SECONDS = 11.0
"""Longer than the server waits for an answer."""
AWAY_SECONDS = (0.05, 0.5)


class OpenNotebook:
    def __init__(self, server: Server, path: str, kernel: str, chance: random.Random) -> None:
        self.applied: Counter[str] = Counter()
        """How often each source was put into a cell, or into a new one."""
        self.cells: list[Cell] = []
        self._server, self._path, self._chance = server, path, chance
        self._run_by = Page(server, kernel)
        self._kernel = kernel
        self._has_kernel = True
        self._asked: list[Asked] = []
        self._modified = ""
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._life: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """As the file has it."""
        self.cells = await self._read()
        await self._run_by.open()
        await self._connect()
        self._life = asyncio.create_task(self._live())

    async def close(self) -> None:
        if self._life is not None:
            self._life.cancel()
            await asyncio.gather(self._life, return_exceptions=True)
        await self.go_away()

    def kernel_is_gone(self) -> None:
        """What ran there comes to no end."""
        self._has_kernel = False
        for asked in self._asked:
            asked.ended.set()

    async def go_away(self) -> None:
        """It may be loaded again after a while."""
        if self._socket is not None:
            await self._socket.close()
        await self._run_by.close()
        for asked in self._asked:
            asked.ended.set()

    async def _connect(self) -> None:
        self._socket = await self._server.connect("agent-kernel/api/pages")
        notebook = {"path": self._path, "kernel_id": self._kernel}
        await self._socket.send_str(json.dumps({"type": "notebooks", "notebooks": [notebook]}))

    async def _live(self) -> None:
        while self._socket is not None:
            socket = self._socket
            async with asyncio.TaskGroup() as running:
                async for message in socket:
                    request = json.loads(message.data)
                    if request["ask"]["type"] == "run":
                        running.create_task(self._answer(socket, request))
                    else:
                        await self._answer(socket, request)  # a page does one after another, also if it hangs
            await self.go_away()
            await asyncio.sleep(self._chance.uniform(*AWAY_SECONDS))
            if self._chance.random() < 0.3:
                return  # for good
            await look_until(self._comes_back, "the page to come back")

    async def _comes_back(self) -> bool:
        """With what the file has, or, where the document is shared with others, as it was."""
        try:
            if self._chance.random() < 0.5:
                self.cells = await self._read()
            with contextlib.suppress(aiohttp.WSServerHandshakeError):
                await self._run_by.open()  # the kernel may be gone
            await self._connect()
        except aiohttp.ClientError:
            return False
        return True

    async def _read(self) -> list[Cell]:
        status, model = await self._server.ask("GET", f"api/contents/{self._path}")
        assert status == 200, model
        cells: list[Cell] = model["content"]["cells"]
        self._modified = model["last_modified"]
        return cells

    async def _answer(self, socket: aiohttp.ClientWebSocketResponse, request: Any) -> None:
        ask, chance = request["ask"], self._chance
        what = chance.choices(["answers", "slow", "goes before", "goes after", "hangs"], [70, 15, 6, 6, 0.7])[0]
        if what == "goes before":
            await self.go_away()
            return
        if what in ("slow", "hangs"):
            await asyncio.sleep(HANGS_SECONDS if what == "hangs" else chance.uniform(0.01, 0.5))
        refusal, success = await self._do(ask)
        if what == "goes after":
            await self.go_away()
            return
        wanted = ask["cell_ids"] if ask["type"] == "read" else [ask["cell_id"]]
        states = [state(cell, index) for index, cell in enumerate(self.cells)]
        found = [one for one in states if wanted is None or one["cell_id"] in wanted]
        answer = {"cells": found, "total": len(states), "refusal": refusal, "success": success}
        with contextlib.suppress(aiohttp.ClientError, ConnectionError):
            await socket.send_str(json.dumps({"type": "answer", "request_id": request["request_id"], **answer}))

    async def _do(self, ask: Any) -> tuple[str | None, bool]:
        """Why it was not done, and whether a cell ran without an error."""
        if ask["type"] == "read":
            return None, True
        found = [cell for cell in self.cells if cell["id"] == ask["cell_id"]]
        if ask["type"] == "change" and ask["action"] == "insert":
            if not found:
                self.cells.append(new_cell(ask["cell_id"], ask["source"]))
                await self._applied(ask["source"])
            return None, True
        if len(found) != 1 or found[0]["source"] != ask["expected"]:
            return "changed" if found else "gone", True
        if ask["type"] == "run":
            return None, await self._run(found[0])
        found[0]["source"] = ask["source"]
        await self._applied(ask["source"])
        return None, True

    async def _applied(self, source: str) -> None:
        self.applied[source] += 1
        if self._chance.random() < 0.5:
            with contextlib.suppress(aiohttp.ClientError):
                await self._save()

    async def _save(self) -> None:
        """Not over what somebody else has saved: a page asks the user then."""
        _, there = await self._server.ask("GET", f"api/contents/{self._path}?content=0")
        if there["last_modified"] == self._modified:
            whole = {"cells": self.cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
            body = {"type": "notebook", "content": whole}
            _, there = await self._server.ask("PUT", f"api/contents/{self._path}", body)
            self._modified = there["last_modified"]

    async def _run(self, cell: Cell) -> bool:
        if not self._has_kernel:
            return False
        with contextlib.suppress(aiohttp.ClientError, ConnectionError):
            asked = await self._run_by.run(cell["id"], cell["source"])
            self._asked.append(asked)
            await asked.ended.wait()
            return asked.status == "ok"
        return False


def new_cell(cell_id: str, source: str) -> Cell:
    return {
        "cell_type": "code",
        "id": cell_id,
        "metadata": {},
        "source": source,
        "execution_count": None,
        "outputs": [],
    }


def state(cell: Cell, index: int) -> dict[str, Any]:
    return {"cell_id": cell["id"], "cell_type": "code", "index": index, "source": cell["source"]}
