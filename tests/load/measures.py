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

from agent_kernel.testing.fake_openai import FAKE_KEY
from tests.faults import checks
from tests.faults.server import Client, Server
from tests.load import probe
from tests.load.model import DONE, plan
from tests.ports import free_port
from tests.waiting import look_until

SETTLES_WITHIN = 60.0
"""A WebSocket waits for the other side's good-bye."""
SPARE_FILES = 8
"""A kept connection to the model, a thread's pipe: what may stay open."""
SPARE_BLOCKS = 1.02
"""Of Python's memory blocks, where the same load comes once more."""
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Held:
    """What the server's process holds when nothing goes on."""

    files: int
    objects: Counter[str]
    """Of this project, by type."""
    blocks: int
    """Python's memory blocks in use."""

    def is_as_small_as(self, before: "Held") -> bool:
        return not self.objects - before.objects and self.files <= before.files + SPARE_FILES


@dataclass(frozen=True)
class Measure:
    name: str
    seconds: float
    before: Held
    after: Held

    def row(self) -> str:
        files = f"{self.before.files} -> {self.after.files}"
        objects = f"{self.before.objects.total():,} -> {self.after.objects.total():,}"
        blocks = f"{self.before.blocks / 1e3:,.0f} -> {self.after.blocks / 1e3:,.0f}"
        return f"| {self.name} | {self.seconds:.1f} | {files} | {objects} | {blocks} |"

    @property
    def left_behind(self) -> str:
        """Empty where the server has let go of all."""
        grown = self.after.objects - self.before.objects
        return "" if self.after.is_as_small_as(self.before) else f"{self.name} left {dict(grown)}: {self.row()}"


def grew(first: Measure, again: Measure) -> str:
    """Empty where a load left no more memory in use the second time: the first fills caches."""
    same = again.after.blocks <= first.after.blocks * SPARE_BLOCKS or first.name != again.name
    return "" if same else f"{again.name} left more the second time: {again.row()}"


class LoadedServer:
    """A server with one kernel, and what it holds."""

    def __init__(self, server: Server, counter: Path, kernel: str) -> None:
        self.server, self.counter, self.kernel = server, counter, kernel

    async def look(self) -> Held:
        status, alive = await self.server.ask("GET", probe.PATH)
        assert status == 200, alive
        assert self.server.process is not None
        files = len(os.listdir(f"/proc/{self.server.process.pid}/fd"))  # noqa: PTH208
        return Held(files, Counter(alive["objects"]), alive["blocks"])

    async def measured(self, name: str, seconds: float, before: Held) -> Measure:
        """Once the server has let go of all, or after a while."""
        deadline = time.monotonic() + SETTLES_WITHIN
        now = await self.look()
        while not now.is_as_small_as(before) and time.monotonic() < deadline:
            await asyncio.sleep(0.5)
            now = await self.look()
        return Measure(name, seconds, before, now)

    def ran(self) -> int:
        """How many calls have run so far, each of them once."""
        counted = checks.counted(self.counter)
        assert set(counted.values()) <= {1}
        return counted.total()

    async def begin(self, calls: int, a_step: int = 1) -> str:
        """A conversation with a run of that many calls in the kernel."""
        conversation = await self.server.new_conversation(self.kernel)
        await self.server.start_run(conversation, f"Go: {plan(calls, a_step, str(self.counter))}")
        return conversation

    async def end(self, conversation: str) -> None:
        """Once its run has ended, all of whose calls were a success."""
        view = await self.server.ended(conversation, 300)
        assert {call["state"] for call in view["tool_calls"]} == {"success"}
        await self.server.api("DELETE", f"conversations/{conversation}")


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
    """A server that has done a run already: what is made at first use is not counted. `allows` is for one whose site's
    rule lets code run unasked."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    options = ['--AgentKernelServer.default_budget={"tool_calls": 100000, "steps": 100000}']
    options += ["--AgentKernelServer.site_rules=allow run_python"] if allows else []
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    with _model() as model:
        environment = {**model, "PYTHONPATH": path}
        async with Server(directory / "server", environment, *options, extensions=[probe.__name__]) as server:
            loaded = LoadedServer(server, directory / "counter", await server.start_kernel())
            await (many_calls(loaded, 2, 1) if allows else many_approvals(loaded, 2))
            await server.api("GET", "models")  # waits for the look at the endpoint's list that the first turn began
            yield loaded
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def many_approvals(loaded: LoadedServer, conversations: int) -> Measure:
    """That many conversations wait for an approval each, and all are answered at once."""
    server, before, ran = loaded.server, await loaded.look(), loaded.ran()
    begun = [await loaded.begin(1) for _ in range(conversations)]

    async def all_wait() -> list[str]:
        calls = await server.api("GET", "approvals?state=awaiting_approval")
        return [call["approval_id"] for call in calls] if len(calls) >= conversations else []

    waiting = await look_until(all_wait, f"{conversations} approvals", 120)
    started = time.monotonic()
    answers = await asyncio.gather(*map(server.decide, waiting))
    assert [status for status, _ in answers] == [200] * conversations
    for conversation in begun:
        await loaded.end(conversation)
    seconds = time.monotonic() - started
    assert loaded.ran() == ran + conversations
    return await loaded.measured(f"{conversations} pending approvals answered at once", seconds, before)


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
    return await loaded.measured(f"{count} clients of one conversation", seconds, before)


async def read_answer(client: Client) -> None:
    await client.until("complete", seconds=120)
    events = client.frames[1:]
    assert checks.gaps([frame["seq"] for frame in events], 0) == []
    assert "".join(frame["content"] for frame in events if frame["type"] == "token") == DONE


async def many_calls(loaded: LoadedServer, calls: int, a_step: int) -> Measure:
    """One run of that many calls, on a server whose site allows them."""
    before, ran = await loaded.look(), loaded.ran()
    started = time.monotonic()
    conversation = await loaded.begin(calls, a_step)

    async def over() -> bool:
        await asyncio.sleep(0.1)
        return loaded.ran() >= ran + calls

    await look_until(over, "the calls to run", 7200)
    await loaded.end(conversation)
    seconds = time.monotonic() - started
    return await loaded.measured(f"a run of {calls:,} tool calls, {a_step} a step", seconds, before)
