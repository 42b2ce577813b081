"""The real server of `tests/server`, and pages that are the AI SDK's own chat, versions 6 and 7, in Node."""

import asyncio
import json
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.server.conftest import *  # noqa: F403 -- fixtures, which pytest finds by their names
from tests.server.serving import Server

HERE = Path(__file__).parent
MODULES = HERE / "node_modules"
LOCK = HERE / "package-lock.json"
INSTALLED = MODULES / ".package-lock.json"
Part = dict[str, Any]


class Page:
    """A page with chats. `chat` is the name of one; commands wait until they have been carried out."""

    def __init__(self, process: asyncio.subprocess.Process, chat_id: str, body: dict[str, Any]) -> None:
        self._process = process
        self.chat_id = chat_id
        self.body = body

    async def __call__(self, command: str, *, chat: str = "chat", **args: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = json.dumps({"command": command, "chat": chat, **args})
        self._process.stdin.write(line.encode() + b"\n")
        async with asyncio.timeout(60):
            reply = json.loads(await self._process.stdout.readline())
        assert "error" not in reply, reply["error"]
        return reply["value"]

    async def open(self, chat: str = "chat", **options: Any) -> None:
        await self("open", chat=chat, **{"id": self.chat_id, "body": self.body, **options})

    async def until(self, condition: Callable[[dict[str, Any]], Any], chat: str = "chat", seconds: float = 60) -> Any:
        """The value of a condition on the chat's state, once it holds."""
        deadline = time.monotonic() + seconds
        while True:
            state = await self("state", chat=chat)
            if value := condition(state):
                return value
            assert time.monotonic() < deadline, json.dumps({**state, "requests": len(state["requests"])}, indent=1)
            await asyncio.sleep(0.02)

    async def close(self) -> None:
        """Close the page. Both versions of the package have read all that it was sent."""
        unread = await self("chunks")
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.kill()
        await self._process.wait()
        assert unread == []

    async def answered(self, chat: str = "chat") -> dict[str, Any]:
        """The state once no request goes on. Fails if one failed."""
        state: dict[str, Any] = await self.until(lambda one: one if one["status"] == "ready" else None, chat)
        assert state["failures"] == []
        return state

    async def said(self, answer: str) -> dict[str, Any]:
        """The state once the model has said this and no request goes on."""
        state: dict[str, Any] = await self.until(
            lambda one: one if text(one) == answer and one["status"] == "ready" else None
        )
        return state


async def start_page(port: int, token: str, node: Path, version: int) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        str(node), "page.mjs", str(version), f"http://localhost:{port}/agent-kernel/api/ai-sdk/chat", token,
        cwd=HERE, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=2**26,
    )  # fmt: skip


OpenPage = Callable[..., Awaitable[Page]]


@pytest.fixture(scope="session")
def node() -> Path:
    """Node 22, which version 7 asks for, with both versions of the package."""
    if not INSTALLED.exists() or INSTALLED.stat().st_mtime < LOCK.stat().st_mtime:
        if shutil.which("npm") is None:
            pytest.skip("npm is not installed")
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--silent"], cwd=HERE, check=True, timeout=600)
        os.utime(INSTALLED)
    return MODULES / "node" / "bin" / "node"


@pytest.fixture(params=[pytest.param(6, id="ai6", marks=pytest.mark.soak), pytest.param(7, id="ai7")])
def version(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


@pytest_asyncio.fixture(loop_scope="module")
async def page(server: Server, node: Path, version: int) -> AsyncIterator[OpenPage]:
    """Opens pages: `await page("chat-1", kernel_id=...)`. What is named beside the chat goes into the body."""
    pages: list[Page] = []
    token = server.app.identity_provider.token

    async def open_page(chat_id: str = "chat-1", **body: Any) -> Page:
        pages.append(Page(await start_page(server.port, token, node, version), chat_id, body))
        await pages[-1].open()
        return pages[-1]

    yield open_page
    for one in pages:
        await one.close()


def tools(state: dict[str, Any]) -> list[Part]:
    """The parts of calls in the last message."""
    return [part for part in state["messages"][-1]["parts"] if part["type"].startswith("tool-")]


def text(state: dict[str, Any]) -> str:
    return "".join(part["text"] for part in state["messages"][-1]["parts"] if part["type"] == "text")
