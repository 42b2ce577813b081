"""Two real servers on one log: a run belongs to one of them, the other says so, and no event is lost between them."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agent_kernel.testing import FakeOpenAI
from tests.faults import checks
from tests.faults.planned_model import PlannedModel
from tests.faults.server import Server

pytestmark = [pytest.mark.soak, pytest.mark.kernel, pytest.mark.asyncio(loop_scope="module")]
ELSEWHERE = "Another server"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Server, Server]]:
    directory = tmp_path_factory.mktemp("two")
    with FakeOpenAI([PlannedModel()], repeat=True) as model:
        async with AsyncExitStack() as stack:
            one = await stack.enter_async_context(Server(directory / "one", model.environment()))
            other = Server(directory / "other", model.environment(), log_of=one)
            yield one, await stack.enter_async_context(other)


async def post(server: Server, path: str, body: Any) -> tuple[int, Any]:
    return await server.ask("POST", f"agent-kernel/api/{path}", body)


async def test_what_one_server_carries_out_the_other_leaves_alone_and_says_so(
    servers: tuple[Server, Server], tmp_path: Path
) -> None:
    one, other = servers
    counter = tmp_path / "counter"
    conversation, [call] = await one.waiting(counter)
    refused = [
        await other.decide(call["approval_id"]),
        await post(other, f"conversations/{conversation}/runs", {"content": "More."}),
        await other.ask("DELETE", f"agent-kernel/api/conversations/{conversation}"),
    ]
    assert [status for status, _ in refused] == [409, 409, 409]
    assert all(body["message"].startswith(ELSEWHERE) for _, body in refused), refused
    async with other.client(conversation) as client:
        session = await client.until("session")
        assert session["snapshot"]["status"] == "awaiting_approval"
        await client.send(type="approval_response", approval_id=call["approval_id"], approved=True)
        told = await client.until("error")
        assert (told["code"], told["message"][: len(ELSEWHERE)]) == ("CONFLICT", ELSEWHERE)
    assert checks.counted(counter) == {}
    assert (await one.decide(call["approval_id"]))[0] == 200
    view = await one.ended(conversation)
    assert [one["state"] for one in view["tool_calls"]] == ["success"]
    assert list(checks.counted(counter).values()) == [1]


async def test_a_conversation_may_go_on_in_either_server_one_run_after_another(servers: tuple[Server, Server]) -> None:
    conversation = await servers[0].new_conversation()
    async with servers[0].client(conversation) as client:
        await client.until("session")
        for turn in range(5):
            await servers[turn % 2].start_run(conversation, f"Turn {turn}.")
            await servers[turn % 2].ended(conversation)
        view = await servers[1].view(conversation)
        while client.frames[-1]["seq"] < view["last_seq"]:
            assert await client.next() is not None
    assert [run["status"] for run in view["runs"]] == ["complete"] * 5
    assert checks.gaps([frame["seq"] for frame in client.frames[1:]], 0) == []
