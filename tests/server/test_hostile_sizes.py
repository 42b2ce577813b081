"""What a model may write without holding up the server; the watchdog of these tests says where it did."""

import json
from typing import Any

import pytest

from agent_kernel.testing import FakeOpenAI, call, calls, say
from tests.server.client import Api, Kernel

MANY = 1_000
"""Calls of one turn, as many as an answer may have."""
HOSTILE = {
    "a long path opened 4,000 times": "p = '" + "x" * 40_000 + "'\n" + "open(p,'w')\n" * 4_000,
    "code within code": "c = '" + "f(1);" * 300 + "'\n" + "".join(f"exec(c + '{n}')\n" for n in range(5_000)),
    "hidden characters": "x = '" + "\u200b" * 100_000 + "'",
}


@pytest.fixture
def extension_traits() -> dict[str, Any]:
    return {"default_budget": {"tool_calls": MANY}}


@pytest.mark.parametrize("code", HOSTILE.values(), ids=HOSTILE.keys())
async def test_a_call_of_any_size_is_shown_while_the_server_goes_on(
    code: str, api: Api, kernel: Kernel, model: FakeOpenAI
) -> None:
    model.add(call("run_python", code=code), say("Good."))
    conversation = await api.new_conversation(kernel_id=kernel.kernel_id)
    await api.start_run(conversation)
    waiting = await api.next_approval()
    assert json.loads(waiting["tool_input"])["code"] == code
    status, _ = await api("POST", "approvals", waiting["approval_id"], body={"approved": False})
    assert status == 200
    (run,) = (await api.ended(conversation))["runs"]
    assert run["status"] == "complete", run["error"]


async def test_a_turn_of_thousands_of_calls_leaves_the_server_to_others(
    api: Api, kernel: Kernel, model: FakeOpenAI
) -> None:
    """Each waits for a decision, which is a card; others ask the server for its status all the while."""
    model.add(calls(*(call("run_python", code=f"x = {number}") for number in range(MANY))))
    conversation = await api.new_conversation(kernel_id=kernel.kernel_id)
    run_id = await api.start_run(conversation)
    while len(await api.pending()) < MANY:
        assert (await api("GET", "status"))[0] == 200
    await api("POST", "conversations", conversation, "runs", run_id, "cancel")
    await api.ended(conversation)
