"""Load on one real server: many pending approvals, many clients, many calls; and whether it lets go of all
afterwards."""

import asyncio
import contextlib
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_kernel.testing.fake_openai import FAKE_KEY
from tests.faults import checks
from tests.faults.server import Client, Server
from tests.load import probe
from tests.load.model import DONE, plan
from tests.ports import free_port
from tests.waiting import look_until

SETTLES_WITHIN = 20.0
SPARE_FILES = 8
"""A kept connection to the model, a thread's pipe: what may stay open."""
SPARE_BLOCKS = 1.02
SPARE_OBJECTS = 40
"""What such a connection consists of. None of them is one of this project's."""
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Held:
    """What the server's process holds when nothing goes on: garbage is collected."""

    files: int
    objects: Counter[str]
    """By type, of the packages that a run makes objects of."""
    blocks: int
    """Memory blocks of Python that are in use, without Jupyter's memory of signatures."""

    def is_as_small_as(self, before: "Held") -> bool:
        grown = self.objects - before.objects
        ours = [kind for kind in grown if kind.startswith("agent_kernel")]
        objects = grown.total() <= SPARE_OBJECTS and not ours
        memory = self.blocks <= before.blocks * SPARE_BLOCKS
        return objects and memory and self.files <= before.files + SPARE_FILES


@dataclass(frozen=True)
class Measure:
    name: str
    seconds: float
    before: Held
    after: Held

    def row(self) -> list[str]:
        before, after = (
            (str(held.files), f"{held.objects.total():,}", f"{held.blocks / 1e3:,.0f}")
            for held in (self.before, self.after)
        )
        return [self.name, f"{self.seconds:.1f}", *map(" -> ".join, zip(before, after, strict=True))]

    @property
    def let_go(self) -> bool:
        return self.after.is_as_small_as(self.before)

    def __str__(self) -> str:
        grown = self.after.objects - self.before.objects
        return f"{self.name}: {grown} more; seconds, files, objects, blocks: {self.row()[1:]}"


def grew(first: Measure, again: Measure) -> bool:
    """Whether the same load a second time left more behind: the first fills caches."""
    return again.after.blocks > first.after.blocks * SPARE_BLOCKS


def table(measures: list[Measure]) -> str:
    rows = [["load", "seconds", "open files: before -> after", "objects of a run", "Python's blocks, thousands"]]
    rows += [["---", *["---:"] * 4], *(measure.row() for measure in measures)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


class LoadedServer:
    """A server with one kernel, and what it holds."""

    def __init__(self, server: Server, directory: Path) -> None:
        self.server = server
        self.counter = directory / "counter"
        self.kernel = ""

    async def look(self) -> Held:
        status, alive = await self.server.ask("GET", probe.PATH)
        assert status == 200, alive
        assert self.server.process is not None
        files = len(os.listdir(f"/proc/{self.server.process.pid}/fd"))  # noqa: PTH208
        return Held(files, Counter(alive["objects"]), alive["blocks"])

    async def settled(self, before: Held) -> Held:
        """What it holds once it has let go of all, or after a while. Some things take a few seconds, such as a
        WebSocket that waits for the other side's good-bye."""
        now = await self.look()
        deadline = time.monotonic() + SETTLES_WITHIN
        while not now.is_as_small_as(before) and time.monotonic() < deadline:
            await asyncio.sleep(0.5)
            now = await self.look()
        return now

    def ran(self) -> int:
        return sum(checks.counted(self.counter).values())

    async def begin(self, calls: int, a_step: int = 1) -> str:
        """A conversation with a run of that many calls in the kernel."""
        conversation = await self.server.new_conversation(self.kernel)
        await self.server.start_run(conversation, f"Go: {plan(calls, a_step, str(self.counter))}")
        return conversation

    async def waiting(self, count: int, seconds: float = 120) -> list[Any]:
        async def look() -> Any:
            calls = await self.server.api("GET", "approvals?state=awaiting_approval")
            return calls if len(calls) >= count else None

        calls: list[Any] = await look_until(look, f"{count} approvals", seconds)
        return calls


@contextmanager
def _model() -> Iterator[dict[str, str]]:
    """The model's process; the variables that make it the default endpoint."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "tests.load.model", str(port)], cwd=ROOT)
    try:
        url = f"http://127.0.0.1:{port}/v1"
        yield {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": FAKE_KEY, "AGENT_KERNEL_MODEL": "fake"}
    finally:
        process.kill()
        process.wait()


@asynccontextmanager
async def loaded_server(directory: Path, *, allows: bool = False) -> AsyncIterator[LoadedServer]:
    """A server that has done a run already: what is imported and cached at first use is not counted.

    `allows` is for a server whose site's rule lets code run unasked.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    options = [
        '--AgentKernelServer.default_budget={"tool_calls": 100000, "steps": 100000}',
        *(["--AgentKernelServer.site_rules=allow run_python"] if allows else []),
    ]
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    with _model() as model:
        environment = {**model, "PYTHONPATH": path}
        async with Server(directory / "server", environment, *options, extensions=[probe.__name__]) as server:
            loaded = LoadedServer(server, directory)
            loaded.kernel = await server.start_kernel()
            await (many_calls(loaded, 2, 1) if allows else many_approvals(loaded, 2))
            await server.api("GET", "models")  # waits for the look at the endpoint's list that the first turn began
            yield loaded
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def many_approvals(loaded: LoadedServer, conversations: int) -> Measure:
    """That many conversations wait for an approval each, and all are answered at once."""
    server, before, ran = loaded.server, await loaded.look(), loaded.ran()
    begun = [await loaded.begin(1) for _ in range(conversations)]
    waiting = await loaded.waiting(conversations)
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
    name = f"{conversations} pending approvals answered at once"
    return Measure(name, seconds, before, await loaded.settled(before))


async def many_clients(loaded: LoadedServer, count: int) -> Measure:
    """That many clients watch one conversation, and each gets every event of an answer."""
    server, before = loaded.server, await loaded.look()
    conversation = await server.new_conversation()
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(server.client(conversation)) for _ in range(count)]
        for client in clients:
            await client.until("session", seconds=120)
        started = time.monotonic()
        await server.start_run(conversation, "Answer.")
        await asyncio.gather(*(read_answer(client) for client in clients))
        seconds = time.monotonic() - started
    await server.api("DELETE", f"conversations/{conversation}")
    return Measure(f"{count} clients of one conversation", seconds, before, await loaded.settled(before))


async def read_answer(client: Client) -> None:
    await client.until("complete", seconds=120)
    events = client.frames[1:]
    assert checks.gaps([frame["seq"] for frame in events], 0) == []
    assert "".join(frame["content"] for frame in events if frame["type"] == "token") == DONE


async def many_calls(loaded: LoadedServer, calls: int, a_step: int) -> Measure:
    """One run of that many calls, on a server whose site allows them."""
    server, before, ran = loaded.server, await loaded.look(), loaded.ran()
    started = time.monotonic()
    conversation = await loaded.begin(calls, a_step)

    async def over() -> bool:
        await asyncio.sleep(0.1)
        return loaded.ran() - ran >= calls

    await look_until(over, "the calls to run", 7200)
    view = await server.ended(conversation, 300)
    seconds = time.monotonic() - started
    assert [call["state"] for call in view["tool_calls"]] == ["success"] * calls
    assert set(checks.counted(loaded.counter).values()) == {1}
    await server.api("DELETE", f"conversations/{conversation}")
    name = f"a run of {calls:,} tool calls, {a_step} a step"
    return Measure(name, seconds, before, await loaded.settled(before))
