"""Calls and runs whose kernel is stopped, dies, or is restarted."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agent_kernel.errors import LogUnavailable
from agent_kernel.protocol.lists import ListedRun
from agent_kernel.testing import FakeOpenAI, call, calls, say
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


async def test_kernels_are_watched_on_where_the_log_could_not_be_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle, "PAUSE_SECONDS", 0.05)
    looks: list[str] = []

    async def open_runs() -> list[ListedRun]:
        looks.append("look")
        if len(looks) == 1:
            raise LogUnavailable("It was pulled away.")
        return []

    watching = asyncio.create_task(idle.IdleKernels({}, open_runs, None).watch(lambda: True))
    await until(lambda: len(looks) > 1)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


async def test_a_conversation_goes_on_after_its_kernel_was_restarted(
    api: Api, fresh_kernel: Kernel, model: FakeOpenAI, server: Server
) -> None:
    model.add(
        *(turn for word in ("old", "new") for turn in (call("run_python", code=f"print('{word}')"), say("Done.")))
    )
    conversation_id, waiting = await waiting_call(api, fresh_kernel)
    await api.decide(waiting)
    await api.ended(conversation_id)
    await server.fetch("api", "kernels", fresh_kernel.kernel_id, "restart", method="POST", body="")
    await api.start_run(conversation_id, "Again.")
    await api.decide()
    calls_made = (await api.ended(conversation_id))["tool_calls"]
    assert [one["state"] for one in calls_made] == ["success", "success"]
    assert "new" in calls_made[1]["result"]


async def test_what_a_kernel_replaced_before_it_died_is_not_put_back_and_the_page_is_told(
    api: Api, client: OpenChannel, fresh_kernel: Kernel, model: FakeOpenAI, tmp_path: Path
) -> None:
    path = tmp_path / "report.md"
    path.write_text("old")
    dies = call("run_python", code="import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", call_id="dies")
    model.add(call("write_file", path=str(path), content="new", call_id="writes"), dies)
    conversation_id = await api.new_conversation(kernel_id=fresh_kernel.kernel_id)
    page = await client(conversation_id)
    await api.start_run(conversation_id)
    for _ in range(2):
        asked = await page.until("approval_request")
        await page.send({"type": "approval_response", "approval_id": asked["approval_id"], "approved": True})
        ended = await page.until("tool_complete")
    assert (ended["tool_call_id"], ended["state"]) == ("dies", "unknown")  # the run waits for a look at it
    await page.send({"type": "tool_undo", "tool_call_id": "writes"})
    refused = await page.until("error")
    assert (refused["code"], refused["tool_call_id"]) == ("CONFLICT", "writes")
    assert path.read_text() == "new"
    model.add(say("Done."))
    await page.send({"type": "tool_continue", "tool_call_id": "dies"})
    await page.until("complete")


@pytest.mark.parametrize(("asleep", "by_message"), [(False, False), (True, True)])
async def test_an_interrupt_of_the_kernel_stops_a_run_that_no_cell_has_started(
    api: Api, kernel: Kernel, model: FakeOpenAI, server: Server, asleep: bool, by_message: bool
) -> None:
    """Also by what `jupyter_client` sends to a kernel whose kernel spec wants messages."""
    code = SLEEPS if asleep else "1"
    model.add(call("run_python", code=code))
    conversation_id, waiting = await waiting_call(api, kernel)
    if asleep:
        await api.decide(waiting)
        await executing(api, conversation_id)
    if by_message:
        kernel.ask_for_interrupt()
    else:
        await server.fetch("api", "kernels", kernel.kernel_id, "interrupt", method="POST", body="")
    view = await api.ended(conversation_id)
    assert (view["runs"][0]["status"], view["tool_calls"][0]["state"]) == ("cancelled", "cancelled")
    assert view["runs"][0]["notices"][0]["content"] == "Stopped, because the kernel was interrupted."
    assert len(model.requests) == 1
