"""Tools with a cache in a kernel that a server serves."""

import pytest

from agent_kernel.testing import FakeOpenAI, call, say
from tests.notebooks.test_cached_tools import LOOK, TOOL
from tests.server.client import Api, Kernel

PROMPT = "%%agent --wait --tools look,change --policy allow\nGo."


@pytest.mark.kernel
async def test_an_outcome_is_given_again_until_a_cell_of_the_users_or_a_call_has_run(
    api: Api, loaded: Kernel, model: FakeOpenAI
) -> None:
    model.add(LOOK, say("1"), LOOK, say("2"), LOOK, say("3"), call("change"), LOOK, LOOK, say("4"))
    for cell in (TOOL, PROMPT, PROMPT, "x = 2", PROMPT, PROMPT):
        await loaded.run(cell)
    [conversation] = await api.get("conversations")
    looked = [one for one in conversation["tool_calls"] if one["tool_name"] == "look"]
    assert [one["cached_at"] is not None for one in looked] == [False, True, False, False, True]
    assert [one["result"].split("\n")[-1] for one in looked] == ["1", "1", "2", "2", "2"]
    assert looked[1]["result"].startswith("Stored outcome of 0 minutes ago. ")
