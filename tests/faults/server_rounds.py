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
from tests.faults.rounds import MOMENTS, ServerRound, play_all
from tests.faults.server import Client, Server


@dataclass
class StruckRound(ServerRound):
    """A run in a kernel, and a client that sees it."""

    conversation: str = ""
    plain: str = ""
    """A conversation without a kernel, which streams an answer meanwhile."""
    kernel: str = ""
    frames: dict[int, dict[str, Any]] = field(default_factory=dict)

    async def views(self) -> list[Any]:
        return [await self.server.view(self.conversation)]

    async def start_kernel(self) -> str:
        return await self.server.start_kernel()

    def plan(self) -> dict[str, Any]:
        """What the model does in the run."""
        return self.python_plan([0, 0.05, 0.3], [0, 0.002])

    async def begin(self) -> None:
        """A kernel, a conversation with a run in it, and one without a kernel."""
        self.kernel = await self.start_kernel()
        self.conversation = await self.server.new_conversation(self.kernel)
        self.plain = await self.server.new_conversation()
        await self.server.start_run(self.conversation, f"Go on: {json.dumps(self.plan())}")
        await self.server.start_run(self.plain, 'Answer: {"steps": [], "pause": 0.02}')

    def note(self, frame: dict[str, Any]) -> bool:
        """Remember a logged frame; one that was seen before has to be the same. False for what is about the line."""
        if frame["type"] in ("session", "pong") or (frame["type"] == "error" and frame["run_id"] is None):
            return False
        if self.frames.setdefault(frame["seq"], frame) != frame:
            self.fault("events_missing", f"event {frame['seq']} is another one now")
        return True

    async def watch(self, client: Client, moment: str) -> None:
        """Answer what is asked, until the moment has come."""
        left = self.random.randint(1, 2)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.random.uniform(0.1, 2.0) if moment == "at any time" else 6.0):
                while (frame := await client.next()) is not None:
                    self.note(frame)
                    if frame["type"] == "approval_request" and moment != "while an approval is pending":
                        await self.answer(client, frame["approval_id"])
                        if moment == "as a decision is sent":
                            break
                    left -= frame["type"] in MOMENTS[moment]
                    if left <= 0 or (frame["type"] == "run" and frame["run"]["status"] in checks.ENDED):
                        break
        await asyncio.sleep(self.random.choice([0, 0, 0.002, 0.01]))

    async def answer(self, client: Client, approval_id: str) -> None:
        """By HTTP or by WebSocket, as chance has it."""
        approved = self.random.random() < 0.85
        if self.random.random() < 0.5:
            await client.send(type="approval_response", approval_id=approval_id, approved=approved)
            return
        with contextlib.suppress(aiohttp.ClientError):
            status, body = await self.server.decide(approval_id, approved=approved)
            if status not in (200, 409):
                self.fault("buttons_dead", f"a decision met {status} {body}")

    async def finish(self) -> None:
        """After the strike: a client comes back, decides what still waits, and all comes to an end."""
        resume = self.random.choice([0, max(self.frames, default=0)])
        async with self.server.client(self.conversation, resume) as client:
            view = await self.end_of_runs()
            if view["last_seq"] > resume:
                while (frame := await client.next()) is not None:
                    if self.note(frame) and frame["seq"] >= view["last_seq"]:
                        break
        seen = [frame["seq"] for frame in client.frames if frame["type"] != "session" and frame["run_id"] is not None]
        for gap in checks.gaps(seen, resume) if view["last_seq"] > resume else []:
            self.fault("events_missing", gap)
        self.check_calls(view["tool_calls"])
        self.check_frames([self.frames[seq] for seq in sorted(self.frames)])
        plain = await self.server.ended(self.plain)
        if plain["runs"][0]["status"] != "complete":
            self.fault("dishonest_states", f"the run without a kernel ended {plain['runs'][0]['status']}")
        await self.send_next()

    async def end_of_runs(self) -> dict[str, Any]:
        while True:
            [view] = await self.views()
            await self.decide(view, approved=True)
            await self.continue_unknown(view)
            waits = any(call["state"] == "awaiting_approval" for call in view["tool_calls"])
            if not waits and all(run["status"] in checks.ENDED for run in view["runs"]):
                found: dict[str, Any] = view
                return found
            await asyncio.sleep(0.02)

    async def send_next(self) -> None:
        """The conversation goes on, unless its kernel is gone: the next request tells the model of every call."""
        path = f"agent-kernel/api/conversations/{self.conversation}/runs"
        status, body = await self.server.ask("POST", path, {"content": 'And now? {"steps": []}'})
        assert status < 300 or status == 409, body
        if status != 409:
            await self.server.ended(self.conversation)

    async def end(self) -> None:
        await self.server.ask("DELETE", f"api/kernels/{self.kernel}")


async def strike_server(round_: StruckRound) -> None:
    await round_.server.kill()
    await round_.server.start()


async def strike_kernel(round_: StruckRound) -> None:
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


async def play(strike: Strike, round_: StruckRound) -> None:
    round_.figures.kills = 1
    await round_.begin()
    moment = round_.random.choice(list(MOMENTS))
    round_.name += f" {strike.__name__} {moment}"
    with contextlib.suppress(aiohttp.ClientError):
        async with round_.server.client(round_.conversation, 0) as client:
            await round_.watch(client, moment)
            await strike(round_)
            with contextlib.suppress(TimeoutError):  # what was under way when the strike came
                while (frame := await client.next(0.05)) is not None:
                    round_.note(frame)
    async with asyncio.timeout(60):
        await round_.finish()
    await round_.end()


def run_server(rounds: int, seed: int, first: int = 0) -> Figures:
    """Rounds in which the server is killed."""
    return asyncio.run(play_all(rounds, seed, first, StruckRound, partial(play, strike_server)))


def run_kernel(rounds: int, seed: int, first: int = 0) -> Figures:
    """Rounds in which the kernel is killed, restarted or shut down."""
    return asyncio.run(play_all(rounds, seed, first, StruckRound, partial(play, strike_kernel)))
