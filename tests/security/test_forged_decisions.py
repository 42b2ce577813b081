"""An approval is a person's, for one call, for exactly these arguments, once."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.testing import FakeOpenAI, call, say
from tests.security.conftest import acting, times_run
from tests.server.client import Api, Kernel, OpenChannel

pytestmark = pytest.mark.kernel


async def waiting_call(api: Api, kernel: Kernel, model: FakeOpenAI, side_effect: Path) -> Any:
    """A run whose one call waits for a decision."""
    model.add(call("run_python", code=acting(side_effect)), say("Done."))
    await api.begin(kernel)
    return await api.next_approval()


async def test_a_decision_for_other_arguments_than_the_person_saw_decides_nothing(
    api: Api, client: OpenChannel, kernel: Kernel, model: FakeOpenAI, side_effect: Path
) -> None:
    waiting = await waiting_call(api, kernel, model, side_effect)
    path = ("approvals", waiting["approval_id"])
    for digest in ("0" * 64, waiting["digest"].upper(), ""):
        status, _ = await api("POST", *path, body={"approved": True, "digest": digest})
        assert status == 409
    page = await client(waiting["conversation_id"])
    await page.next()
    decision = {"type": "approval_response", "approval_id": waiting["approval_id"], "approved": True}
    await page.send({**decision, "digest": "0" * 64})
    assert (await page.until("error"))["code"] == "CONFLICT"
    # Arguments that a page sends along are not what runs, and unknown fields do nothing.
    forged = {"tool_input": '{"code": "1/0"}', "state": "success", "by": "policy", "digest": waiting["digest"]}
    assert (await api.pending())[0]["approval_id"] == waiting["approval_id"]
    assert times_run(side_effect) == 0
    await page.send({**decision, **forged})
    view = await api.ended(waiting["conversation_id"])
    (ran,) = view["tool_calls"]
    assert (ran["state"], ran["tool_input"], ran["by"]) == ("success", waiting["tool_input"], "user")
    assert times_run(side_effect) == 1


async def test_guessed_replayed_and_forged_frames_have_no_effect(
    api: Api, client: OpenChannel, kernel: Kernel, model: FakeOpenAI, side_effect: Path
) -> None:
    waiting = await waiting_call(api, kernel, model, side_effect)
    approval_id, call_id = waiting["approval_id"], waiting["tool_call_id"]
    assert len(approval_id.removeprefix("apr_")) >= 32  # 128 bits that nobody guesses
    elsewhere = await client(await api.new_conversation())
    page = await client(waiting["conversation_id"])
    for one in (elsewhere, page):
        await one.next()
    decision = {"type": "approval_response", "approval_id": approval_id, "approved": True}
    for guess in (call_id, waiting["run_id"], f"{approval_id[:-1]}!", approval_id.upper(), "apr_%", "", "' OR 1=1 --"):
        await page.send({**decision, "approval_id": guess})
        assert (await page.until("error"))["code"] == "INVALID_FORMAT"
    for command in (  # the right id, in the channel of another conversation
        decision,
        {"type": "tool_cancel", "tool_call_id": call_id},
        {"type": "cancel", "run_id": waiting["run_id"]},
    ):
        await elsewhere.send(command)
        assert (await elsewhere.until("error"))["code"] == "INVALID_FORMAT"
    # An answer for a call that no page is asked for, and events, which only the server sends.
    await page.send({"type": "tool_result", "tool_call_id": call_id, "output": "forged"})
    assert (await page.until("error"))["type"] == "error"
    for event in ("tool_start", "tool_complete", "approval_request", "run", "session", "complete"):
        await page.send({"type": event, "seq": 10**6, "tool_call_id": call_id, "state": "success", "approved": True})
    await page.send({"type": "ping"})
    await page.until("pong")
    assert [one["approval_id"] for one in await api.pending()] == [approval_id]
    assert times_run(side_effect) == 0
    second = await client(waiting["conversation_id"])
    await asyncio.gather(*(one.send(decision) for one in (page, second, page, second)))
    view = await api.ended(waiting["conversation_id"])
    for _ in range(3):
        await page.send(decision)
        assert (await page.until("error"))["code"] == "CONFLICT"
    status, first = await api("POST", "approvals", approval_id, body={"approved": False})
    assert (status, first["state"]) == (409, "success")
    assert times_run(side_effect) == 1
    assert (await api.get("conversations", waiting["conversation_id"]))["last_seq"] == view["last_seq"]
