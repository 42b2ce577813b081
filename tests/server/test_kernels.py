"""Runs whose calls are done by a real kernel: from approval to outcome, and through every way a kernel can end."""

from pathlib import Path
from typing import Any

import pytest

from agent_kernel.testing import FakeOpenAI, call, calls, say
from tests.server.client import Api, Kernel, OpenChannel
from tests.waiting import look_until

pytestmark = pytest.mark.kernel


async def waiting_call(api: Api, kernel: Kernel) -> tuple[str, Any]:
    """Start a run in the kernel, which has started; its conversation and the first call that waits."""
    await kernel.ready()
    conversation_id = await api.begin(kernel)
    return conversation_id, await api.next_approval()


async def executing(api: Api, conversation_id: str) -> Any:
    async def look() -> Any:
        calls = (await api.get("conversations", conversation_id))["tool_calls"]
        return next((one for one in calls if one["state"] == "executing" and one["outputs"]), None)

    return await look_until(look, "a call that has put out something")


async def test_a_client_that_knows_three_events_gets_the_whole_answer_of_a_run_with_tools(
    api: Api, client: OpenChannel, kernel: Kernel, model: FakeOpenAI
) -> None:
    model.add(
        calls(
            call("run_python", code="x = 6 * 7\nprint('working')\nx"),
            call("run_python", code="1 / 0"),
            text="Let me see.",
        ),
        say("It is 42."),
    )
    conversation_id = await api.new_conversation(kernel_id=kernel.kernel_id)
    page = await client(conversation_id)
    await page.send({"type": "message", "content": "Go on."})
    session = await page.next()
    first = await api.next_approval()
    assert first["tool_name"] == "run_python"
    offered = [tool["function"]["name"] for tool in model.requests[0].body["tools"]]
    assert offered == [tool["name"] for tool in session["tools"]], "no cell has declared any"
    faulty = {"approved": True, "edited_input": {"program": "x"}}
    status, refused = await api("POST", "approvals", first["approval_id"], body=faulty)
    assert (status, refused["field"]) == (400, "edited_input")
    body = {"approved": True, "reason": None, "edited_input": None, "scope": None}
    status, decided = await api("POST", "approvals", first["approval_id"], body=body)
    assert status == 200
    assert decided["state"] in ("approved", "executing", "success")
    assert decided["by"] == "user"
    second = await api.next_approval()
    denial = {"approved": False, "reason": "No dividing."}
    assert (await api("POST", "approvals", second["approval_id"], body=denial))[1]["state"] == "denied"
    status, too_late = await api("POST", "approvals", second["approval_id"], body={"approved": True})
    assert (status, too_late["state"], too_late["by"]) == (409, "denied", "user")
    complete = await page.until("complete")
    known = [frame for frame in page.frames if frame["type"] in ("token", "complete", "error")]
    assert "".join(frame["content"] for frame in known if frame["type"] == "token") == "Let me see.It is 42."
    assert complete["finish_reason"] == "stop"
    assert not [frame for frame in known if frame["type"] == "error"]
    view = await api.ended(conversation_id)
    done, refused = view["tool_calls"]
    assert (done["state"], refused["state"], refused["reason"]) == ("success", "denied", "No dividing.")
    assert "working" in done["result"]
    assert "42" in done["result"]
    assert "".join(output["text"] for output in done["outputs"] if output["kind"] == "stream") == "working\n"
    tools = [message for message in model.requests[1].body["messages"] if message["role"] == "tool"]
    assert len(tools) == 2
    assert "No dividing." in tools[1]["content"]
    assert await kernel.text("print(x)") == "42\n"


async def test_a_call_waits_behind_the_users_cell_which_its_card_names_and_survives_that_cells_failure(
    api: Api, kernel: Kernel, model: FakeOpenAI, client: OpenChannel, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    model.add(call("run_python", code="print('after')"), say("Done."))
    conversation_id, waiting = await waiting_call(api, kernel)
    page = await client(conversation_id)
    number = int(await kernel.text("print(len(In) - 1)"))  # of this cell, as on the page
    held = f"import pathlib, time\nwhile not pathlib.Path({str(gate)!r}).exists(): time.sleep(0.02)"
    kernel.start(f"{held}\nraise ValueError('the cell fails')")
    await page.send({"type": "approval_response", "approval_id": waiting["approval_id"], "approved": True})
    await page.until("tool_start")
    waits = await page.until("tool_state")
    assert (waits["state"], waits["waiting_behind"]) == ("executing", number + 1)
    gate.touch()
    done = await page.until("tool_complete")
    assert (done["state"], done["tool_result"].count("after")) == ("success", 1)
    await page.until("complete")
