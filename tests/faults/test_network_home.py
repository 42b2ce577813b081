"""A log on a file system without memory that processes share: one server has it alone, and everybody is told."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest

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


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Any]:
    """Mounts a folder with the options given, and returns the place."""
    with ExitStack() as stack:

        def do(*options: str) -> Path:
            try:
                stack.enter_context(mounted(tmp_path / "local", tmp_path / "home", *options))
            except NoFuse as reason:
                pytest.skip(str(reason))
            return tmp_path / "home"

        yield do


@pytest.mark.parametrize(("options", "alone"), [(NETWORK, True), ((), False)], ids=["other hosts' too", "this host's"])
async def test_a_log_is_held_alone_where_its_memory_is_not_shared(
    options: tuple[str, ...], alone: bool, mount: Any
) -> None:
    log = await Log.open(mount(*options) / LOG)
    assert log.alone == alone
    await log.aclose()


async def logged(server: Server, *words: str) -> str:
    async def look() -> str | None:
        text = (server.directory / "server.log").read_text()
        return text if all(word in text for word in words) else None

    text: str = await look_until(look, f"{words} in the server's log")
    return text


@pytest.mark.kernel
async def test_a_server_works_on_a_network_home_and_a_second_one_says_why_it_does_not(
    mount: Any, tmp_path: Path
) -> None:
    with FakeOpenAI([PlannedModel()], repeat=True) as model:
        one = Server(tmp_path / "one", model.environment())
        one.log_path = mount(*WITHOUT_SHARED_MEMORY) / LOG
        async with one, Server(tmp_path / "other", model.environment(), log_of=one) as other:
            conversation, [call] = await one.waiting(tmp_path / "counter")
            await logged(one, "holds the log", str(one.log_path), "AgentKernelServer.data_dir")
            answers = await asyncio.gather(*(other.ask("GET", "agent-kernel/api/conversations") for _ in range(4)))
            for status, body in answers:
                assert status == 503
                assert all(words in body["message"] for words in ("Another process", str(one.log_path), "data_dir"))
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                async with other.client(conversation):
                    pass
            assert refused.value.status == 503
            assert "Traceback" not in await logged(other, "Agent Kernel can't work yet", str(one.log_path))

            assert (await one.decide(call["approval_id"]))[0] == 200
            assert [call["state"] for call in (await one.ended(conversation))["tool_calls"]] == ["success"]
            assert list(checks.counted(tmp_path / "counter").values()) == [1]
            await one.end()
            assert [found["conversation_id"] for found in await other.api("GET", "conversations")] == [conversation]
