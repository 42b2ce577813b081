"""Rounds in which an agent outside asks by MCP, and the server is killed or stopped at a random moment: the agent
insists until it has a result, and its call has run once or honestly not."""

import asyncio
import contextlib

import nbformat
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult

from tests.faults.figures import Figures
from tests.faults.rounds import ServerRound, play_all
from tests.faults.server import TOKEN
from tests.server.mcp_client import connected_to, handle_in, text_of

NOTEBOOK = "rounds.ipynb"


async def insist(round_: ServerRound, code: str) -> CallToolResult:
    """Ask until there is a result, over as many connections as it takes."""
    headers, chance = {"Authorization": f"token {TOKEN}"}, round_.random
    arguments = {"notebook_path": NOTEBOOK, "code": code}
    handle: str | None = None
    found: CallToolResult | None = None
    while found is None:  # once it has the result it asks no more, also where its leave fails
        url = f"http://127.0.0.1:{round_.server.port}/agent-kernel"  # another port after each start
        with contextlib.suppress(MCPError, OSError, BaseExceptionGroup):
            async with connected_to(url, headers, round_.name, mode=chance.choice(["auto", "legacy"])) as client:
                while found is None:
                    if handle is not None and chance.random() < 0.5:
                        result = await client.call_tool("wait_for_call", {"handle": handle})
                    else:
                        result = await client.call_tool("run_python", arguments)
                    if "handle: " in text_of(result):
                        handle = handle_in(result)
                    else:
                        found = result
        await asyncio.sleep(0.05)
    return found


async def moment(round_: ServerRound, asking: asyncio.Task[CallToolResult]) -> None:
    """Any time at first, while the call runs, or around its end."""
    if round_.random.random() < 0.4:
        await asyncio.sleep(round_.random.uniform(0, 2.5))
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(20):
            while not (await asyncio.to_thread(round_.counter.exists) or asking.done()):  # noqa: ASYNC110 -- a file
                await asyncio.sleep(0.005)
    await asyncio.sleep(round_.random.choice([0, 0.01, 0.1, 0.6]))


async def play(round_: ServerRound) -> None:
    server, chance = round_.server, round_.random
    round_.figures.kills = 1
    nbformat.write(nbformat.v4.new_notebook(), server.directory / NOTEBOOK)
    leaves_mark = f"open({str(round_.counter)!r}, 'a').write('mark{round_.number}\\n')"
    person = asyncio.create_task(round_.person())
    asking = asyncio.create_task(
        insist(round_, f"{leaves_mark}; __import__('time').sleep({chance.choice([0, 0.05, 0.5])})")
    )
    try:
        await moment(round_, asking)
        await (server.kill() if chance.random() < 0.7 else server.end())
        await server.start()
        async with asyncio.timeout(90):
            result = await asking
    finally:
        person.cancel()
        asking.cancel()
        await asyncio.gather(person, asking, return_exceptions=True)
    calls = [call for call in await server.api("GET", "approvals") if call["client"] == round_.name]
    round_.check_calls(calls)
    states = [call["state"] for call in calls]
    if len(calls) != 1 or result.is_error is (states[0] == "success"):
        round_.fault("dishonest_states", f"it is {states}, and the client is told: {text_of(result)}")


def run_mcp(rounds: int, seed: int, first: int = 0) -> Figures:
    """Rounds in which the server is killed under a client of MCP."""
    return asyncio.run(play_all(rounds, seed, first, ServerRound, play))
