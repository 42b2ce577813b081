"""What a model may write without holding up the server; the watchdog of these tests says where it did."""

import json
from typing import Any

import pytest

from agent_kernel.testing import FakeOpenAI, call, calls, say
from tests.server.client import Api, Kernel

MANY = 1_000
"""Calls of one turn, as many as an answer may have."""


@pytest.fixture
def extension_traits() -> dict[str, Any]:
    return {"default_budget": {"tool_calls": MANY}}


async def test_a_call_of_any_size_is_shown_while_the_server_goes_on(
    api: Api, kernel: Kernel, model: FakeOpenAI
) -> None:
    code = "x = '" + "\u200b" * 100_000 + "'"
    model.add(call("run_python", code=code), say("Good."))
    conversation = await api.begin(kernel)
    waiting = await api.next_approval()
    assert json.loads(waiting["tool_input"])["code"] == code
    await api.decide(waiting, approved=False)
    (run,) = (await api.ended(conversation))["runs"]
    assert run["status"] == "complete", run["error"]


@pytest.mark.soak
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
