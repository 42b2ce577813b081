"""The walls that a site sets, around a command in a kernel of its server."""

from typing import Any

import pytest

from agent_kernel.testing import FakeOpenAI, call, say
from agent_kernel.tools.walls.inside import found_walls, words_of
from tests.server.client import Api, Kernel
from tests.server.serving import Server

pytestmark = pytest.mark.kernel


@pytest.fixture
def extension_traits() -> dict[str, Any]:
    return {"shell_walls": "read-only", "shell_environment": ["PGHOST"]}


async def test_a_card_and_its_result_name_them_and_the_servers_own_files_are_hidden(
    api: Api, kernel: Kernel, model: FakeOpenAI, server: Server
) -> None:
    await kernel.text("import os; os.environ.update(PGHOST='db.lab', LAB_KEY='a-key-of-the-lab')")
    command = f"env; touch new; cat {server.app.info_file} {server.extension.data_dir}/*"
    model.add(call("run_shell", command=command), say("Done."))
    conversation_id = await api.begin(kernel)
    waiting = await api.next_approval()
    words = words_of(found_walls(), "read-only")
    assert waiting["preview"]["facts"][-1] == f"walls: {words}."
    await api.decide(waiting)
    [ended] = (await api.ended(conversation_id))["tool_calls"]
    assert f"walls: {words}" in ended["result"].splitlines()[0]
    if found_walls().kind == "none":
        return
    assert (ended["state"], "PGHOST=db.lab" in ended["result"]) == ("error", True)
    for secret in ("a-key-of-the-lab", server.app.identity_provider.token, "SQLite format 3"):
        assert secret not in ended["result"]
    assert "stopped by the walls: " in ended["result"]
