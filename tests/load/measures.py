"""Load on one real server: many pending approvals, many faces, many calls; and whether it lets go of all afterwards."""

import asyncio
import contextlib
import json
import resource
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_kernel.testing import FakeOpenAI
from tests.faults import checks
from tests.faults.planned_model import DONE, PlannedModel
from tests.faults.server import Face, Server, until

SETTLES_WITHIN = 20.0
SPARE_FILES = 8
"""A kept connection to the model, a thread's pipe: what may stay open."""


@dataclass(frozen=True)
class Held:
    """What the server's process holds."""

    memory_mb: float
    files: int


@dataclass(frozen=True)
class Measure:
    name: str
    seconds: float
    before: Held
    peak: Held
    after: Held

    def row(self) -> list[str]:
        memory = " -> ".join(f"{held.memory_mb:.0f}" for held in (self.before, self.peak, self.after))
        files = " -> ".join(str(held.files) for held in (self.before, self.peak, self.after))
        return [self.name, f"{self.seconds:.1f}", memory, files]


def table(measures: list[Measure]) -> str:
    rows = [["load", "seconds", "memory, MB: before -> most -> after", "open files: before -> most -> after"]]
    rows += [["---", "---:", "---:", "---:"], *(measure.row() for measure in measures)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


class LoadedServer:
    """A server with one kernel, and what it holds."""

    def __init__(self, server: Server, directory: Path) -> None:
        self.server = server
        self.counter = directory / "counter"
        self.kernel = ""

    def held(self) -> Held:
        assert self.server.process is not None
        process = Path("/proc") / str(self.server.process.pid)
        memory = next(line for line in (process / "status").read_text().splitlines() if line.startswith("VmRSS"))
        return Held(int(memory.split()[1]) / 1024, len(list((process / "fd").iterdir())))

    async def settled(self, before: Held) -> Held:
        """What it holds once it has let go of files, or after a while."""

        async def look() -> bool:
            return self.held().files <= before.files + SPARE_FILES

        with contextlib.suppress(AssertionError):
            await until(look, "the files to be closed", SETTLES_WITHIN)
        return self.held()

    async def begin(self, steps: list[int], tool: str = "run_python") -> tuple[str, str]:
        """A conversation with a run in the kernel: its id and the run's."""
        conversation = await self.server.new_conversation(self.kernel)
        plan = {"steps": steps, "tool": tool, "counter": str(self.counter)}
        return conversation, await self.server.start_run(conversation, f"Go: {json.dumps(plan)}")

    async def waiting(self, count: int, seconds: float = 120) -> list[Any]:
        async def look() -> Any:
            calls = await self.server.api("GET", "approvals?state=awaiting_approval")
            return calls if len(calls) >= count else None

        calls: list[Any] = await until(look, f"{count} approvals", seconds)
        return calls


@asynccontextmanager
async def loaded_server(directory: Path, *, allows: bool = False) -> AsyncIterator[LoadedServer]:
    """A server that has done a run already: what is imported and cached at first use is not counted.

    `allows` is for a server whose site's rule lets code run unasked.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    budget = '--AgentKernelServer.default_budget={"tool_calls": 100000, "steps": 100000}'
    with FakeOpenAI([PlannedModel()], repeat=True) as model:
        options = [budget, *(["--AgentKernelServer.site_rules=allow run_python"] if allows else [])]
        async with Server(directory / "server", model.environment(), *options) as server:
            loaded = LoadedServer(server, directory)
            loaded.kernel = await server.start_kernel()
            await (many_calls(loaded, 2, 1) if allows else many_approvals(loaded, 2))
            yield loaded
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def many_approvals(loaded: LoadedServer, conversations: int) -> Measure:
    """That many conversations wait for an approval each, and all are answered at once."""
    server, before, ran = loaded.server, loaded.held(), sum(checks.counted(loaded.counter).values())
    begun = [(await loaded.begin([1]))[0] for _ in range(conversations)]
    waiting = await loaded.waiting(conversations)
    peak = loaded.held()
    started = time.monotonic()
    answers = await asyncio.gather(*(server.decide(call["approval_id"]) for call in waiting))
    assert [status for status, _ in answers] == [200] * conversations
    for conversation in begun:
        view = await server.ended(conversation, 120)
        assert [call["state"] for call in view["tool_calls"]] == ["success"], view["tool_calls"]
    seconds = time.monotonic() - started
    counted = checks.counted(loaded.counter)
    assert sum(counted.values()) == ran + conversations
    assert set(counted.values()) == {1}
    for conversation in begun:
        await server.api("DELETE", f"conversations/{conversation}")
    return Measure(f"{conversations} pending approvals answered at once", seconds, before, peak,
                   await loaded.settled(before))  # fmt: skip


async def many_faces(loaded: LoadedServer, count: int) -> Measure:
    """That many faces watch one conversation, and each gets every event of an answer."""
    server, before = loaded.server, loaded.held()
    conversation = await server.new_conversation()
    async with contextlib.AsyncExitStack() as stack:
        faces = [await stack.enter_async_context(server.face(conversation)) for _ in range(count)]
        for face in faces:
            await face.until("session", seconds=120)
        peak = loaded.held()
        started = time.monotonic()
        await server.start_run(conversation, 'Answer: {"steps": []}')
        await asyncio.gather(*(read_answer(face) for face in faces))
        seconds = time.monotonic() - started
    await server.api("DELETE", f"conversations/{conversation}")
    return Measure(f"{count} faces of one conversation", seconds, before, peak, await loaded.settled(before))


async def read_answer(face: Face) -> None:
    await face.until("complete", seconds=120)
    events = face.frames[1:]
    assert checks.gaps([frame["seq"] for frame in events], 0) == []
    assert "".join(frame["content"] for frame in events if frame["type"] == "token") == DONE


async def many_calls(loaded: LoadedServer, calls: int, a_step: int) -> Measure:
    """One run of that many calls, on a server whose site allows them."""
    server, before, ran = loaded.server, loaded.held(), sum(checks.counted(loaded.counter).values())
    started, most = time.monotonic(), before
    conversation, _ = await loaded.begin([a_step] * (calls // a_step))

    async def over() -> bool:
        nonlocal most
        now = loaded.held()
        most = Held(max(most.memory_mb, now.memory_mb), max(most.files, now.files))
        await asyncio.sleep(0.1)
        return sum(checks.counted(loaded.counter).values()) - ran >= calls

    await until(over, "the calls to run", 3600)
    view = await server.ended(conversation, 300)
    seconds = time.monotonic() - started
    assert [call["state"] for call in view["tool_calls"]] == ["success"] * calls
    assert set(checks.counted(loaded.counter).values()) == {1}
    await server.api("DELETE", f"conversations/{conversation}")
    return Measure(f"a run of {calls} tool calls", seconds, before, most, await loaded.settled(before))
