"""Rounds on a real Jupyter server with a real kernel: the server or the kernel is struck at a random moment.

A server's own kernels die with it, so a run in a kernel ends honestly, and one without a kernel goes on. The server
that was started again plays the next round: each strike at the server is one start.
"""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp

from tests.faults import checks
from tests.faults.figures import Figures
from tests.faults.planned_model import mark_of
from tests.faults.rounds import Round, play_all
from tests.faults.runtime_driver import MOMENTS
from tests.faults.server import Client, Server


@dataclass
class ServerRound(Round):
    conversation: str = ""
    plain: str = ""
    """A conversation without a kernel, which streams an answer meanwhile."""
    kernel: str = ""
    frames: dict[int, dict[str, Any]] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)

    async def start_kernel(self) -> str:
        return await self.server.start_kernel()

    def plan(self) -> dict[str, Any]:
        """What the model does in the run."""
        chance = self.random
        return {
            "steps": [chance.randint(1, 2) for _ in range(chance.randint(1, 2))],
            "tool": "run_python",
            "counter": str(self.counter),
            "seconds": chance.choice([0, 0.05, 0.3]),
            "pause": chance.choice([0, 0.002]),
        }

    def check_calls(self, calls: list[Any]) -> None:
        counter = checks.counted(self.counter)
        for call in calls:
            self.check_call(call, counter[mark_of(call["tool_input"])] if call["state"] != "invalid" else 0)

    async def end(self) -> None:
        await self.server.ask("DELETE", f"api/kernels/{self.kernel}")


async def begin(round_: ServerRound) -> None:
    """A kernel, a conversation with a run in it, and one without a kernel."""
    server = round_.server
    round_.kernel = await round_.start_kernel()
    round_.conversation = await server.new_conversation(round_.kernel)
    round_.plain = await server.new_conversation()
    await server.start_run(round_.conversation, f"Go on: {json.dumps(round_.plan())}")
    await server.start_run(round_.plain, 'Answer: {"steps": [], "pause": 0.02}')


async def watch(round_: ServerRound, client: Client, moment: str, strike: Callable[[], Awaitable[None]]) -> None:
    """Answer what is asked until the moment has come, then strike."""
    left = round_.random.randint(1, 2)
    hold = moment == "while an approval is pending"
    try:
        async with asyncio.timeout(round_.random.uniform(0.1, 2.0) if moment == "at any time" else 6.0):
            while (frame := await client.next()) is not None:
                note(round_, frame)
                if frame["type"] == "approval_request" and not hold:
                    await answer(round_, client, frame["approval_id"])
                    if moment == "as a decision is sent":
                        break
                left -= frame["type"] in MOMENTS[moment]
                if left <= 0 or (frame["type"] == "run" and frame["run"]["status"] in checks.ENDED):
                    break
    except TimeoutError:
        pass
    await asyncio.sleep(round_.random.choice([0, 0, 0.002, 0.01]))
    await strike()


def note(round_: ServerRound, frame: dict[str, Any]) -> bool:
    """Remember a logged frame; one that was seen before has to be the same. False for what is about the line only."""
    if frame["type"] in ("session", "pong") or (frame["type"] == "error" and frame["run_id"] is None):
        return False
    if round_.frames.setdefault(frame["seq"], frame) != frame:
        round_.fault("events_missing", f"event {frame['seq']} is another one now")
    return True


async def answer(round_: ServerRound, client: Client, approval_id: str) -> None:
    """By HTTP or by WebSocket, as chance has it."""
    round_.answered.add(approval_id)
    approved = round_.random.random() < 0.85
    if round_.random.random() < 0.5:
        await client.send(type="approval_response", approval_id=approval_id, approved=approved)
        return
    with contextlib.suppress(aiohttp.ClientError):
        status, body = await round_.server.decide(approval_id, approved=approved)
        if status not in (200, 409):
            round_.fault("buttons_dead", f"a decision met {status} {body}")


async def finish(round_: ServerRound) -> None:
    """After the strike: a client comes back, decides what still waits, and all comes to an end."""
    server = round_.server
    resume = round_.random.choice([0, max(round_.frames, default=0)])
    async with server.client(round_.conversation, resume) as client:
        while True:
            view = await server.view(round_.conversation)
            waiting = [call for call in view["tool_calls"] if call["state"] == "awaiting_approval"]
            for call in waiting:
                await round_.decide(call, digest=call["digest"])
            for call in view["tool_calls"]:
                if call["state"] == "unknown" and call["unknown_answer"] is None:
                    await client.send(type="tool_continue", tool_call_id=call["tool_call_id"])
            if not waiting and all(run["status"] in checks.ENDED for run in view["runs"]):
                break
            await asyncio.sleep(0.02)
        if view["last_seq"] > resume:
            while (frame := await client.next()) is not None:
                if note(round_, frame) and frame["seq"] >= view["last_seq"]:
                    break
    await check(round_, client, resume, view)


async def check(round_: ServerRound, client: Client, resume: int, view: dict[str, Any]) -> None:
    round_.check_calls(view["tool_calls"])
    seen = [frame for frame in client.frames if frame["type"] != "session" and frame["run_id"] is not None]
    for note_ in checks.gaps([frame["seq"] for frame in seen], resume) if view["last_seq"] > resume else []:
        round_.fault("events_missing", note_)
    round_.check_frames(round_.frames[seq] for seq in sorted(round_.frames))
    plain = await round_.server.ended(round_.plain)
    if plain["runs"][0]["status"] != "complete":
        round_.fault("dishonest_states", f"the run without a kernel ended {plain['runs'][0]['status']}")
    await send_next(round_)


async def send_next(round_: ServerRound) -> None:
    """The conversation goes on: the next request tells the model of every call."""
    try:
        await round_.server.start_run(round_.conversation, 'And now? {"steps": []}')
        await round_.server.ended(round_.conversation)
    except AssertionError as refused:
        if "not running" not in str(refused):
            raise


async def strike_server(round_: ServerRound) -> None:
    await round_.server.kill()
    await round_.server.start()


async def strike_kernel(round_: ServerRound) -> None:
    """SIGKILL, a restart or a shutdown of the kernel."""
    server, kernel = round_.server, round_.kernel
    match round_.random.choice(["kill", "restart", "shutdown"]):
        case "kill":
            await asyncio.to_thread(kill_kernels, server)
        case "restart":
            await server.ask("POST", f"api/kernels/{kernel}/restart")
        case "shutdown":
            await server.ask("DELETE", f"api/kernels/{kernel}")


def kill_kernels(server: Server) -> None:
    """SIGKILL every process of the server's whose command line names a kernel."""
    assert server.process is not None
    killed = 0
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(status.read_text().rsplit(")", 1)[1].split()[1])
            if parent == server.process.pid and b"ipykernel" in (status.parent / "cmdline").read_bytes():
                os.kill(int(status.parent.name), signal.SIGKILL)
                killed += 1
    assert killed, "no kernel was there to be killed"


Strike = Callable[[Any], Awaitable[None]]
"""Takes the round."""


async def play(strike: Strike, round_: ServerRound) -> None:
    round_.figures.kills = 1
    await begin(round_)
    moment = round_.random.choice(list(MOMENTS))
    round_.name += f" {strike.__name__} {moment}"
    try:
        async with round_.server.client(round_.conversation, 0) as client:
            await watch(round_, client, moment, lambda: strike(round_))
            await drain(round_, client)
    except aiohttp.ClientError:
        pass
    async with asyncio.timeout(60):
        await finish(round_)
    await round_.end()


async def drain(round_: ServerRound, client: Client) -> None:
    """What was under way when the strike came."""
    with contextlib.suppress(TimeoutError):
        while (frame := await client.next(0.05)) is not None:
            note(round_, frame)


def run_server(rounds: int, seed: int, first: int = 0) -> Figures:
    """Rounds in which the server is killed."""
    return asyncio.run(play_all(rounds, seed, first, ServerRound, partial(play, strike_server)))


def run_kernel(rounds: int, seed: int, first: int = 0) -> Figures:
    """Rounds in which the kernel is killed, restarted or shut down."""
    return asyncio.run(play_all(rounds, seed, first, ServerRound, partial(play, strike_kernel)))
