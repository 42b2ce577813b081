"""What pages do to a server: decide at the same instant, lose their line, come back."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agent_kernel.testing import FakeOpenAI
from tests.faults import checks
from tests.faults.planned_model import DONE, PlannedModel
from tests.faults.server import Client, Server

pytestmark = [pytest.mark.slow, pytest.mark.kernel, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    tmp_path = tmp_path_factory.mktemp("pages")
    with FakeOpenAI([PlannedModel()], repeat=True) as model:
        async with Server(tmp_path / "server", model.environment()) as one:
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


async def test_a_line_that_is_cut_again_and_again_costs_no_event(server: Server) -> None:
    conversation, chance = await server.new_conversation(), random.Random(2)
    await server.start_run(conversation, 'Answer: {"steps": [], "pause": 0.05}')
    seen: list[dict[str, Any]] = []
    while not any(frame["type"] == "run" and frame["run"]["status"] == "complete" for frame in seen):
        last = seen[-1]["seq"] if seen else 0
        async with server.client(conversation, resume=last) as client:
            await client.until("session")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(chance.uniform(0.01, 0.3)):
                    while await client.next() is not None:
                        pass
            client.cut()
        seen += [frame for frame in client.frames if frame["type"] != "session"]
    assert checks.gaps([frame["seq"] for frame in seen], 0) == []
    assert "".join(frame["content"] for frame in seen if frame["type"] == "token") == DONE
