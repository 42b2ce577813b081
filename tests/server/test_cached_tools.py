"""Tools with a cache in a kernel that a server serves."""

from typing import Any

import pytest

from agent_kernel.testing import FakeOpenAI, call, say
from tests.notebooks.test_cached_tools import LOOK, TOOL
from tests.server.client import Api, Kernel
from tests.waiting import look_until

pytestmark = pytest.mark.kernel

PROMPT = "%%agent --tools look,change --policy allow\nGo."


async def test_an_outcome_is_given_again_until_a_cell_of_the_users_or_a_call_has_run(
    api: Api, kernel: Kernel, model: FakeOpenAI
) -> None:
    await kernel.run(f"%load_ext agent_kernel\n{TOOL}")
    model.add(LOOK, say("1"), LOOK, say("2"), LOOK, say("3"), call("change"), LOOK, LOOK, say("4"))
    for number, cells in enumerate(([], [], ["x = 2"], []), 1):
        for cell in (*cells, PROMPT):
            await kernel.run(cell)
        calls = await _calls_after(api, number)
    looked = [one for one in calls if one["tool_name"] == "look"]
    assert [one["cached_at"] is not None for one in looked] == [False, True, False, False, True]
    assert [one["result"].split("\n")[-1] for one in looked] == ["1", "1", "2", "2", "2"]
    assert looked[1]["result"].startswith("Stored outcome of 0 minutes ago. ")


async def _calls_after(api: Api, runs: int) -> list[Any]:
    """The calls of the only conversation, once so many runs of it have ended."""

    async def look() -> Any:
        _, views = await api("GET", "conversations")
        return views if [run["status"] for view in views for run in view["runs"]] == ["complete"] * runs else None

    return list((await look_until(look, "the runs to end"))[0]["tool_calls"])
