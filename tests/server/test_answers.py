"""Whoever has no page, only HTTP, sees what a run waits for and answers it: a budget, an unknown outcome, a model that
failed."""

from typing import Any

import pytest

from agent_kernel.testing import FakeOpenAI, call, say
from agent_kernel.testing.wire.reply import failure
from tests.server.client import Api, Kernel
from tests.waiting import look_until

FAULTY = call("no_such_tool")
"""A turn without an answer, where there is no kernel."""


async def start(api: Api, **fields: Any) -> tuple[str, str]:
    """A run whose author answers over HTTP; the ids of its conversation and of it."""
    conversation_id = await api.new_conversation(**fields)
    body = {"content": "Go on.", "watched": True}
    status, started = await api("POST", "conversations", conversation_id, "runs", body=body)
    assert status == 201
    return conversation_id, started["run_id"]


async def listed(api: Api, what: str, state: str) -> Any:
    """The first of a list, once there is one."""

    async def look() -> Any:
        status, found = await api("GET", what, params={"state": state})
        assert status == 200
        return found

    return (await look_until(look, what))[0]


class TestABudget:
    @pytest.fixture
    def extension_traits(self) -> dict[str, Any]:
        return {"default_budget": {"steps": 1}}

    async def test_is_raised_once_and_the_run_goes_on(self, api: Api, model: FakeOpenAI) -> None:
        model.add(FAULTY, say("Done."))
        conversation_id, run_id = await start(api)
        paused = await listed(api, "runs", "paused")
        assert (paused["run_id"], paused["conversation_id"]) == (run_id, conversation_id)
        assert (paused["status"], paused["paused"]["reached"]) == ("running", ["steps"])
        [shown] = (await api("GET", "conversations", conversation_id))[1]["runs"]
        assert shown == {name: paused[name] for name in shown}
        assert [wait["kind"] for wait in paused["waits_for"]] == ["budget"]
        path = ("conversations", conversation_id, "runs", run_id, "budget")
        answer = {"pause_id": paused["paused"]["pause_id"], "add": {"steps": 3}}
        status, raised = await api("POST", *path, body=answer)
        assert status == 200
        assert (raised["paused"], raised["budget"]["steps"]) == (None, 4)
        status, refused = await api("POST", *path, body=answer)
        assert status == 409
        assert refused["raised"]["add"] == {"steps": 3}
        [ended] = (await api.ended(conversation_id))["runs"]
        assert (ended["status"], ended["budget"]["steps"], len(ended["raises"])) == ("complete", 4, 1)
        assert (await api("POST", *path, body=answer | {"pause_id": "pause_else"}))[0] == 409
        assert (await api("GET", "runs", params={"state": "open"}))[1] == []
        assert [(run["status"], run["waits_for"]) for run in (await api("GET", "runs"))[1]] == [("complete", [])]


@pytest.mark.kernel
async def test_an_unknown_outcome_is_answered_once_and_the_model_is_told(
    api: Api, kernel: Kernel, model: FakeOpenAI
) -> None:
    model.add(call("run_python", code="import os; os._exit(1)"))
    conversation_id, _ = await start(api, kernel_id=kernel.kernel_id)
    waiting = await api.next_approval()
    assert (await api("GET", "approvals", params={"state": "unanswered"}))[1] == []
    await api.decide(waiting)
    lost = await listed(api, "approvals", "unanswered")
    assert (lost["approval_id"], lost["state"]) == (waiting["approval_id"], "unknown")
    assert lost["unknown_answer"] is None
    assert "died" in lost["result"]
    assert len(model.requests) == 1
    model.add(say("I see."))
    path = ("approvals", lost["approval_id"], "outcome")
    status, answered = await api("POST", *path, body={"answer": "continue"})
    assert (status, answered["unknown_answer"]) == (200, "continue")
    for again in ("continue", "retry"):
        status, refused = await api("POST", *path, body={"answer": again})
        assert (status, refused["unknown_answer"]) == (409, "continue")
    view = await api.ended(conversation_id)
    assert (view["runs"][0]["status"], view["messages"][-1]["content"]) == ("complete", "I see.")
    assert [one["role"] for one in view["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert (await api("GET", "approvals", params={"state": "unanswered"}))[1] == []


async def test_a_run_whose_model_failed_is_tried_again(api: Api, model: FakeOpenAI) -> None:
    model.add(failure(400, "The model is not well."), say("Here I am."))
    conversation_id, run_id = await start(api)
    [failed] = (await api.ended(conversation_id))["runs"]
    assert failed["error"]["code"] == "LLM_ERROR"
    path = ("conversations", conversation_id, "runs", run_id, "retry")
    status, again = await api("POST", *path)
    assert (status, again["error"]) == (200, None)
    view = await api.ended(conversation_id)
    assert (view["runs"][0]["status"], view["messages"][-1]["content"]) == ("complete", "Here I am.")
    assert (await api("POST", *path))[0] == 409
