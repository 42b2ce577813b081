"""A cell that is run again, on a real server: its run gives way, whatever it is doing."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agent_kernel.testing import FakeOpenAI, call, say
from tests.server.client import Api, Kernel
from tests.server.test_kernels import executing
from tests.waiting import look_until

pytestmark = pytest.mark.kernel

ASK = "%%agent\nGo on."


@pytest.fixture
def model() -> Iterator[FakeOpenAI]:
    """How often it is asked depends on when a run gives way."""
    with FakeOpenAI(repeat=True) as server:
        yield server


async def runs_when(api: Api, condition: Callable[[list[Any]], bool]) -> list[Any]:
    async def look() -> list[Any]:
        runs: list[Any] = [run for view in await api.get("conversations") for run in view["runs"]]
        return runs if condition(runs) else []

    return await look_until(look, "the runs")


async def test_a_cell_that_is_run_again_while_its_call_waits_has_the_new_run_begin(
    api: Api, loaded: Kernel, model: FakeOpenAI
) -> None:
    model.add(call("run_python", code="1"), call("run_python", code="2"), say("Done."))
    await loaded.run(ASK, cell_id="a")
    first = await api.next_approval()
    await loaded.run(ASK, cell_id="a")
    await runs_when(api, lambda runs: [run["status"] for run in runs] == ["cancelled", "running"])

    async def second() -> Any:
        return next((one for one in await api.pending() if one["run_id"] != first["run_id"]), None)

    waiting = await look_until(second, "the new run's call")
    ended = await api.get("approvals", state="superseded")
    assert [(one["approval_id"], one["reason"]) for one in ended] == [(first["approval_id"], "Its cell was run again.")]
    await api.decide(waiting)
    await api.ended(first["conversation_id"])
    assert (await loaded.text("import agent_kernel as ak; print(ak.last_run().wait().text)")) == "Done.\n"


async def test_a_call_that_runs_is_interrupted_when_its_cell_is_run_again(
    api: Api, loaded: Kernel, model: FakeOpenAI
) -> None:
    model.add(call("run_python", code="import time\nprint('asleep', flush=True)\ntime.sleep(600)"), say("Again."))
    await loaded.run("%%agent --policy allow\nGo on.", cell_id="a")
    [run] = await api.listed("runs")
    await executing(api, run["conversation_id"])
    await loaded.run(ASK, cell_id="a")
    runs = await runs_when(api, lambda runs: [run["status"] for run in runs] == ["cancelled", "complete"])
    assert runs[0]["notices"][0]["content"] == "Stopped, because its cell was run again."
    assert len(await api.get("approvals", state="cancelled")) == 1


async def test_stop_reaches_a_run_that_is_cancelled_in_the_moment_it_is_started(
    api: Api, loaded: Kernel, model: FakeOpenAI
) -> None:
    model.add(call("run_python", code="1"))
    await loaded.run("import agent_kernel as ak; run = ak.Agent().start('Go'); run.cancel()")
    assert await loaded.text("print(run.wait(60).status)") == "cancelled\n"
