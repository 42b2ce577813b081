"""Rounds in which an agent outside asks by MCP, and the server is killed or stopped at a random moment: the agent
insists until it has a result, and its call has run once or honestly not."""

import asyncio
import contextlib
import random
from pathlib import Path
from typing import Any

import aiohttp
import nbformat
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult

from tests.faults import checks
from tests.faults.figures import Figures
from tests.faults.rounds import Round, play_all
from tests.faults.server import TOKEN, Server
from tests.server.mcp_client import connected_to, text_of

NOTEBOOK = "rounds.ipynb"
HANDLE = "handle: "


async def insist(server: Server, name: str, chance: random.Random, arguments: dict[str, Any]) -> CallToolResult:
    """Ask until there is a result, over as many connections as it takes."""
    headers = {"Authorization": f"token {TOKEN}"}
    handle: str | None = None
    found: CallToolResult | None = None
    while found is None:  # once it has the result it asks no more, also where its leave fails
        url = f"http://127.0.0.1:{server.port}/agent-kernel"  # another port after each start
        with contextlib.suppress(MCPError, OSError, BaseExceptionGroup):
            async with connected_to(url, headers, name, mode=chance.choice(["auto", "legacy"])) as client:
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


async def play(round_: Round) -> None:
    server, name, chance, counter = round_.server, round_.name, round_.random, round_.counter
    round_.figures.kills = 1
    nbformat.write(nbformat.v4.new_notebook(), server.directory / NOTEBOOK)
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
    for call in calls:
        round_.check_call(call, times)
    if len(calls) != 1 or result.is_error is (states[0] == "success"):
        round_.fault("dishonest_states", f"it is {states}, and the client is told: {text_of(result)}")


def run_mcp(rounds: int, seed: int, first: int = 0) -> Figures:
    """Rounds in which the server is killed under a client of MCP."""
    return asyncio.run(play_all(rounds, seed, first, Round, play))
