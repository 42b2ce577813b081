"""Calls and runs whose kernel is stopped, dies, or is restarted."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from agent_kernel.testing import FakeOpenAI, call, calls
from agent_kernel_server.kernels import idle
from agent_kernel_server.kernels.served_kernel import ENDED_NOTICE
from tests.server.client import Api, Kernel, OpenChannel
from tests.server.serving import Server
from tests.server.test_kernels import executing, waiting_call
from tests.waiting import until

pytestmark = pytest.mark.kernel

SLEEPS = "import time\nprint('in', flush=True)\ntime.sleep(600)"


async def test_stop_interrupts_the_call_and_not_the_users_cell(
    api: Api, client: OpenChannel, kernel: Kernel, model: FakeOpenAI
) -> None:
    model.add(call("run_python", code=SLEEPS))
    conversation_id, waiting = await waiting_call(api, kernel)
    await api.decide(waiting)
    await executing(api, conversation_id)
    users_cell = asyncio.create_task(kernel.text("import time; time.sleep(0.5); print('untouched')"))
    page = await client(conversation_id)
    run_id = (await page.next())["snapshot"]["runs"][0]["run_id"]
    await page.send({"type": "cancel", "run_id": run_id})
    view = await api.ended(conversation_id)
    assert (view["runs"][0]["status"], view["tool_calls"][0]["state"]) == ("cancelled", "cancelled")
    assert await users_cell == "untouched\n"


@pytest.mark.parametrize("how", ["restart", "shutdown"])
async def test_a_user_who_ends_the_kernel_ends_the_call_and_the_run(
    api: Api, fresh_kernel: Kernel, model: FakeOpenAI, how: str, server: Server
) -> None:
    model.add(calls(call("run_python", code=SLEEPS), call("run_python", code="2")))
    conversation_id, waiting = await waiting_call(api, fresh_kernel)
    await api.decide(waiting)
    await executing(api, conversation_id)
    if how == "restart":
        await server.fetch("api", "kernels", fresh_kernel.kernel_id, "restart", method="POST", body="")
    else:
        await server.fetch("api", "kernels", fresh_kernel.kernel_id, method="DELETE")
    view = await api.ended(conversation_id)
    running, waiting = view["tool_calls"]
    assert running["state"] in ("cancelled", "unknown")  # Jupyter interrupts it first
    assert waiting["state"] == "cancelled"
    assert (view["runs"][0]["status"], view["runs"][0]["error"]) == ("cancelled", None)
    assert [notice["content"] for notice in view["runs"][0]["notices"]] == [ENDED_NOTICE]
    assert await api.pending() == []


@pytest.mark.usefixtures("fresh")
async def test_a_kernel_is_culled_once_its_run_has_waited_too_long_and_the_run_says_what_ran(
    api: Api, kernel: Kernel, model: FakeOpenAI, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle, "PAUSE_SECONDS", 0.05)
    manager, found = server.app.kernel_manager, server.service.kernels.idle
    monkeypatch.setattr(manager, "cull_idle_timeout", 60)
    model.add(calls(call("list_files"), call("run_python", code="1")))
    conversation_id, _ = await waiting_call(api, kernel)
    jupyters = manager.get_kernel(kernel.kernel_id)
    an_hour_ago = datetime.now(UTC) - timedelta(hours=1)
    jupyters.last_activity = an_hour_ago
    await until(lambda: jupyters.last_activity > an_hour_ago)  # as if something had run there
    monkeypatch.setattr(found, "waiting_seconds", 0)
    await until(lambda: kernel.kernel_id in found.idle)
    jupyters.last_activity = an_hour_ago
    await manager.cull_kernel_if_idle(kernel.kernel_id)
    run = (await api.ended(conversation_id))["runs"][0]
    assert (run["status"], run["error"]["code"]) == ("error", "KERNEL_DIED")
    hour = "1\N{NO-BREAK SPACE}h 0\N{NO-BREAK SPACE}min"
    expected = f"Jupyter culled the kernel, which had been idle for {hour} (cull_idle_timeout of this server)."
    assert run["error"]["message"] == f"{expected} Ran: list_files. Did not run: run_python."


@pytest.mark.parametrize("asleep", [False, True])
async def test_an_interrupt_of_the_kernel_stops_a_run_that_no_cell_has_started(
    api: Api, kernel: Kernel, model: FakeOpenAI, server: Server, asleep: bool
) -> None:
    model.add(call("run_python", code=SLEEPS if asleep else "1"))
    conversation_id, waiting = await waiting_call(api, kernel)
    if asleep:
        await api.decide(waiting)
        await executing(api, conversation_id)
    await server.fetch("api", "kernels", kernel.kernel_id, "interrupt", method="POST", body="")
    view = await api.ended(conversation_id)
    assert (view["runs"][0]["status"], view["tool_calls"][0]["state"]) == ("cancelled", "cancelled")
    assert view["runs"][0]["notices"][0]["content"] == "Stopped, because the kernel was interrupted."
    assert len(model.requests) == 1
