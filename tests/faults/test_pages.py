"""What pages do to a server: decide at the same instant, lose their line, come back."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
import pytest_asyncio

from agent_kernel.testing import FakeOpenAI
from tests.faults import checks
from tests.faults.planned_model import DONE, PlannedModel
from tests.faults.server import Client, Server

pytestmark = [pytest.mark.slow, pytest.mark.kernel, pytest.mark.asyncio(loop_scope="module")]


class Proxy:
    """A TCP proxy that cuts every line when told to."""

    def __init__(self, target_port: int) -> None:
        self._target = target_port
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Drop every line at once, in the middle of whatever is on it."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._target)
        pumps = {
            asyncio.create_task(self._pump(reader, up_writer)),
            asyncio.create_task(self._pump(up_reader, writer)),
        }
        self._tasks |= pumps
        self._writers |= {writer, up_writer}

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(4096):
                sink.write(data)
                await sink.drain()
        except ConnectionError:
            pass
        finally:
            sink.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    tmp_path = tmp_path_factory.mktemp("pages")
    with FakeOpenAI([PlannedModel()], repeat=True) as model:
        options = ("--ServerApp.websocket_ping_interval=300", "--ServerApp.websocket_ping_timeout=300")
        async with Server(tmp_path / "server", model.environment(), *options) as one:
            yield one


async def test_of_decisions_at_the_same_instant_one_counts_and_the_others_are_told(
    server: Server, tmp_path: Path
) -> None:
    counter, chance = tmp_path / "counter", random.Random(1)
    conversation, waiting = await server.waiting(counter, 8)
    async with server.client(conversation) as one, server.client(conversation) as two:
        for client in (one, two):
            await client.until("session")
        for call in waiting:
            await decide_everywhere(server, call, [one, two], chance)
        view = await server.ended(conversation)
        conflicts = await read_conflicts([one, two])
    decided = {call["tool_call_id"]: call["state"] for call in view["tool_calls"]}
    assert set(decided.values()) <= {"success", "denied"}
    ran = checks.counted(counter)
    assert set(ran.values()) <= {1}
    assert len(ran) == list(decided.values()).count("success")
    assert len(conflicts) == 8


async def decide_everywhere(server: Server, call: Any, clients: list[Client], chance: random.Random) -> None:
    """Two sockets and HTTP at once: three decisions, of which two come too late."""
    approved = [chance.random() < 0.5 for _ in range(3)]
    key = call["approval_id"]
    decisions: list[Any] = [
        server.decide(key, approved=approved[0]),
        *(
            client.send(type="approval_response", approval_id=key, approved=answer)
            for client, answer in zip(clients, approved[1:], strict=True)
        ),
    ]
    chance.shuffle(decisions)
    answers = [one for one in await asyncio.gather(*decisions) if one is not None]
    [(status, body)] = answers
    assert status in (200, 409)
    assert body["state"] != "awaiting_approval"


async def read_conflicts(clients: list[Client]) -> set[str]:
    """The calls about which some socket was told that it came too late."""
    conflicts = set()
    for client in clients:
        while (frame := await client.next()) is not None and frame["type"] != "complete":
            if frame["type"] == "error":
                assert frame["code"] == "CONFLICT"
                conflicts.add(frame["tool_call_id"])
    return conflicts


async def test_a_proxy_that_cuts_the_line_costs_no_event(server: Server, tmp_path: Path) -> None:
    conversation = await server.new_conversation()
    chance = random.Random(2)
    await server.start_run(conversation, 'Answer: {"steps": [], "pause": 0.05}')
    seen: list[dict[str, Any]] = []
    async with Proxy(server.port) as proxy:
        for number in range(200):
            last = seen[-1]["seq"] if seen else 0
            async with server.client(conversation, resume=last, port=proxy.port) as client:
                cut = asyncio.get_running_loop().call_later(chance.uniform(0.01, 0.1 + number / 50), proxy.cut)
                while (frame := await client.next()) is not None:
                    if frame["type"] != "session":
                        seen.append(frame)
                    if frame["type"] == "run" and frame["run"]["status"] == "complete":
                        break
                cut.cancel()
            if seen and seen[-1]["type"] == "run" and seen[-1]["run"]["status"] == "complete":
                break
    assert checks.gaps([frame["seq"] for frame in seen], 0) == []
    assert "".join(frame["content"] for frame in seen if frame["type"] == "token") == DONE
