"""A log on a file system without memory that processes share: one server has it alone, and everybody is told."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from agent_kernel.errors import LogUnavailable
from agent_kernel.log import runs
from agent_kernel.log.store import Log
from agent_kernel.testing import FakeOpenAI
from tests.faults import checks
from tests.faults.planned_model import PlannedModel
from tests.faults.server import Server
from tests.fuse import WITHOUT_SHARED_MEMORY, NoFuse, mounted
from tests.waiting import look_until

pytestmark = pytest.mark.soak
LOG = "agent-kernel.sqlite"
NETWORK = ("-o", "subtype=sshfs")
"""As a mount of another host's files: its memory can be mapped, but only this host's processes share it."""

ELSEWHERE = """
import asyncio, sys
from pathlib import Path
from agent_kernel.log import runs
from agent_kernel.log.store import Log

async def main():
    log = await Log.open(Path(sys.argv[1]))
    await log.write(lambda t: runs.add_conversation(t.sql, sys.argv[2], None, None, None))
    print("alone" if log.alone else "shared", flush=True)
    sys.stdin.read()

asyncio.run(main())
"""


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Any]:
    """Mounts `local` at `home` with the options given, and returns both."""
    with ExitStack() as stack:

        def do(*options: str) -> tuple[Path, Path]:
            local, home = tmp_path / "local", tmp_path / "home"
            try:
                stack.enter_context(mounted(local, home, *options))
            except NoFuse as reason:
                pytest.skip(str(reason))
            return local, home

        yield do


@pytest.fixture
def home(mount: Any) -> Path:
    place: Path = mount(*WITHOUT_SHARED_MEMORY)[1]
    return place


@pytest.fixture
def elsewhere() -> Iterator[Any]:
    """Another process that opens a log, adds a conversation and waits. Returns it, and how it has the log."""
    with ExitStack() as stack:

        def start(path: Path, conversation: str) -> tuple[subprocess.Popen[str], str]:
            process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", ELSEWHERE, str(path), conversation],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            stack.callback(process.kill)
            assert process.stdout is not None
            return process, process.stdout.readline().strip()

        yield start


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


async def add(log: Log, name: str) -> None:
    await log.write(lambda t: runs.add_conversation(t.sql, name, None, None, None))


async def names(log: Log) -> list[str]:
    return await log.read_apart(
        lambda sql: [name for (name,) in sql.execute("SELECT conversation_id FROM conversations ORDER BY number")]
    )


@pytest.mark.parametrize(
    ("options", "alone"),
    [(WITHOUT_SHARED_MEMORY, True), (NETWORK, True), ((), False), (None, False)],
    ids=["without shared memory", "of other hosts too", "of this host", "on a disk"],
)
async def test_a_log_is_held_alone_where_its_memory_is_not_shared(
    options: tuple[str, ...] | None, alone: bool, mount: Any, tmp_path: Path
) -> None:
    home = tmp_path if options is None else mount(*options)[1]
    log = await Log.open(home / LOG)
    assert log.alone == alone
    await add(log, "one")
    other = log if alone else await Log.open(home / LOG)
    assert await names(other) == ["one"]
    for opened in {log, other}:
        await opened.aclose()
    assert not [name for name in os.listdir(home) if "-owner-" in name]  # noqa: PTH208


async def test_a_second_process_is_told_who_has_the_log_and_gets_it_once_the_first_is_killed(
    home: Path, elsewhere: Any
) -> None:
    process, how = elsewhere(home / LOG, "one")
    assert how == "alone"
    with pytest.raises(LogUnavailable) as refused:
        await Log.open(home / LOG)
    assert str(home / LOG) in str(refused.value)
    assert "Another process" in str(refused.value)
    assert "AgentKernelServer.data_dir" in str(refused.value)
    kill(process)
    log = await Log.open(home / LOG)
    assert await names(log) == ["one"]
    await log.aclose()


async def test_a_log_that_was_held_alone_and_left_by_a_kill_opens_as_any_other_and_back(
    mount: Any, elsewhere: Any
) -> None:
    local, home = mount(*WITHOUT_SHARED_MEMORY)
    for place, how, name in ((home, "alone", "one"), (local, "shared", "two"), (home, "alone", "three")):
        process, found = elsewhere(place / LOG, name)
        assert found == how
        kill(process)
        assert (place / f"{LOG}-wal").stat().st_size > 0, "what was written is not in the log itself yet"
    log = await Log.open(local / LOG)
    assert not log.alone
    assert await names(log) == ["one", "two", "three"]
    await log.aclose()


@pytest.fixture
async def two_servers(tmp_path: Path, home: Path) -> AsyncIterator[tuple[Server, Server]]:
    """One that runs, with its log on the mount, and one that is to be started on the same log."""
    with FakeOpenAI([PlannedModel()], repeat=True) as model:
        async with AsyncExitStack() as stack:
            one = Server(tmp_path / "one", model.environment())
            one.log_path = home / LOG
            await stack.enter_async_context(one)
            other = Server(tmp_path / "other", model.environment(), log_of=one)
            stack.push_async_callback(other.kill)
            yield one, other


async def logged(server: Server, *words: str) -> str:
    async def look() -> str | None:
        text = (server.directory / "server.log").read_text()
        return text if all(word in text for word in words) else None

    text: str = await look_until(look, f"{words} in the server's log")
    return text


@pytest.mark.kernel
async def test_a_server_works_on_a_network_home_and_a_second_one_says_why_it_does_not(
    two_servers: tuple[Server, Server], tmp_path: Path
) -> None:
    one, other = two_servers
    conversation, [call] = await one.waiting(tmp_path / "counter")
    await logged(one, "holds the log", str(one.log_path), "AgentKernelServer.data_dir")

    await other.start()
    answers = await asyncio.gather(*(other.ask("GET", "agent-kernel/api/conversations") for _ in range(4)))
    for status, body in answers:
        assert status == 503
        assert all(words in body["message"] for words in ("Another process", str(one.log_path), "data_dir"))
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        async with other.client(conversation):
            pass
    assert refused.value.status == 503
    text = await logged(other, "Agent Kernel can't work yet", str(one.log_path))
    assert "Traceback" not in text
    assert "disk I/O" not in text

    assert (await one.decide(call["approval_id"]))[0] == 200
    assert [call["state"] for call in (await one.ended(conversation))["tool_calls"]] == ["success"]
    assert list(checks.counted(tmp_path / "counter").values()) == [1]
    await one.end()
    assert [found["conversation_id"] for found in await other.api("GET", "conversations")] == [conversation]


async def test_what_a_killed_server_left_on_a_network_home_the_next_one_takes_up(
    two_servers: tuple[Server, Server],
) -> None:
    one, other = two_servers
    conversation = await one.new_conversation()
    await one.start_run(conversation, "Go.")
    await one.ended(conversation)
    await one.kill()
    await other.start()
    assert [run["status"] for run in (await other.view(conversation))["runs"]] == ["complete"]
    await other.start_run(conversation, "And on.")
    assert [run["status"] for run in (await other.ended(conversation))["runs"]] == ["complete"] * 2
