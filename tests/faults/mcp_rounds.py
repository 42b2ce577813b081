"""Rounds in which an agent outside asks by MCP, and the server is killed or stopped at a random moment: the agent
insists until it has a result, and its call has run once or honestly not."""

import asyncio
import contextlib
import json
import random
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import nbformat
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult, Implementation, TextContent

from agent_kernel.testing import FakeOpenAI
from tests.faults import checks
from tests.faults.figures import Figures
from tests.faults.server import TOKEN, Server

NOTEBOOK = "rounds.ipynb"
HANDLE = "handle: "


@asynccontextmanager
async def connected(server: Server, name: str, mode: str) -> AsyncIterator[Client]:
    async with create_mcp_http_client(headers={"Authorization": f"token {TOKEN}"}) as http:
        transport = streamable_http_client(f"http://127.0.0.1:{server.port}/agent-kernel/mcp", http_client=http)
        info = Implementation(name=name, version="1")
        async with Client(transport, client_info=info, mode=mode) as client:
            yield client


def text_of(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


async def insist(server: Server, name: str, chance: random.Random, arguments: dict[str, Any]) -> CallToolResult:
    """Ask until there is a result, over as many connections as it takes."""
    handle: str | None = None
    found: CallToolResult | None = None
    while found is None:  # once it has the result it asks no more, also where its leave fails
        with contextlib.suppress(MCPError, OSError, BaseExceptionGroup):
            async with connected(server, name, chance.choice(["auto", "legacy"])) as client:
                while found is None:
                    if handle is not None and chance.random() < 0.5:
                        result = await client.call_tool("wait_for_call", {"handle": handle})
                    else:
                        result = await client.call_tool("run_python", arguments)
                    if HANDLE in text_of(result):
                        handle = text_of(result).partition(HANDLE)[2].split()[0]
                    else:
                        found = result
        await asyncio.sleep(0.05)
    return found


async def decide(server: Server, chance: random.Random) -> None:
    """A person, who answers what waits."""
    while True:
        with contextlib.suppress(aiohttp.ClientError, AssertionError, RuntimeError):
            for call in await server.api("GET", "approvals?state=awaiting_approval"):
                await asyncio.sleep(chance.choice([0, 0.05, 0.3]))
                approved = chance.random() < 0.85
                await server.decide(call["approval_id"], approved=approved, digest=call["digest"])
        await asyncio.sleep(0.05)


async def moment(chance: random.Random, counter: Path, asking: asyncio.Task[Any]) -> None:
    """Any time at first, while the call runs, or around its end."""
    if chance.random() < 0.4:
        await asyncio.sleep(chance.uniform(0, 2.5))
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(20):
            while not (await asyncio.to_thread(counter.exists) or asking.done()):  # noqa: ASYNC110 -- see `play`
                await asyncio.sleep(0.005)
    await asyncio.sleep(chance.choice([0, 0.01, 0.1, 0.6]))


async def play(server: Server, name: str, chance: random.Random, counter: Path) -> Figures:
    figures = Figures(rounds=1, kills=1)
    code = f"open({str(counter)!r}, 'a').write('{name}\\n'); __import__('time').sleep({chance.choice([0, 0.05, 0.5])})"
    person = asyncio.create_task(decide(server, chance))
    asking = asyncio.create_task(insist(server, name, chance, {"notebook_path": NOTEBOOK, "code": code}))
    try:
        await moment(chance, counter, asking)
        await (server.kill() if chance.random() < 0.7 else server.end())
        await server.start()
        async with asyncio.timeout(90):
            result = await asking
    finally:
        person.cancel()
        asking.cancel()
        await asyncio.gather(person, asking, return_exceptions=True)
    times = checks.counted(counter)[name]
    calls = [call for call in await server.api("GET", "approvals") if call["client"] == name]
    states = [call["state"] for call in calls]
    if times > 1:
        figures.fault("calls_run_twice", f"it ran {times} times [{name}]")
    if times and any(call["state"] in checks.DID_NOT_RUN or call["by"] is None for call in calls):
        figures.fault("ran_undecided", f"it ran and is {states} [{name}]")
    if len(calls) != 1 or states[0] not in checks.FINAL or (times == 0 and states[0] == "success"):
        figures.fault("dishonest_states", f"{json.dumps(states)}, and it ran {times} times [{name}]")
    elif result.is_error is (states[0] == "success"):
        figures.fault("dishonest_states", f"it is {states[0]}, and the client is told: {text_of(result)} [{name}]")
    return figures


async def _run(rounds: int, seed: int, first: int) -> Figures:
    figures = Figures()
    with (
        tempfile.TemporaryDirectory(prefix="agent-kernel-faults-", ignore_cleanup_errors=True) as folder,
        FakeOpenAI([]) as model,
    ):
        nbformat.write(nbformat.v4.new_notebook(), Path(folder) / NOTEBOOK)
        async with Server(Path(folder), model.environment()) as server:
            for number in range(first, first + rounds):
                name = f"s{seed}r{number}"
                chance = random.Random(seed * 100_000 + number)
                try:
                    figures.add(await play(server, name, chance, Path(folder) / f"counter-{name}"))
                except (AssertionError, TimeoutError) as stuck:
                    figures.fault("buttons_dead", f"stuck: {stuck!r} [{name}]")
    return figures


def run_mcp(rounds: int, seed: int, first: int = 0) -> Figures:
    """Rounds in which the server is killed under a client of MCP."""
    return asyncio.run(_run(rounds, seed, first))
