"""Whoever has no page, only HTTP, sees what a run waits for and answers it: a budget, an unknown outcome."""

from typing import Any

import pytest

from agent_kernel.testing import FakeOpenAI, call, say
from tests.server.client import Api, Kernel

FAULTY = call("no_such_tool")
"""A turn without an answer, where there is no kernel."""


async def start(api: Api, **fields: Any) -> tuple[str, str]:
    """A run whose author answers over HTTP; the ids of its conversation and of it."""
    conversation_id = await api.new_conversation(**fields)
    body = {"content": "Go on.", "watched": True}
    status, started = await api("POST", "conversations", conversation_id, "runs", body=body)
    assert status == 201
    return conversation_id, started["run_id"]


class TestABudget:
    @pytest.fixture
    def extension_traits(self) -> dict[str, Any]:
        return {"default_budget": {"steps": 1}}

    async def test_is_raised_once_and_the_run_goes_on(self, api: Api, model: FakeOpenAI) -> None:
        model.add(FAULTY, say("Done."))
        conversation_id, run_id = await start(api)
        [paused] = await api.listed("runs", state="paused")
        assert (paused["run_id"], paused["status"], paused["paused"]["reached"]) == (run_id, "running", ["steps"])
        [shown] = (await api.get("conversations", conversation_id))["runs"]
        assert shown == {name: paused[name] for name in shown}
        assert [wait["kind"] for wait in paused["waits_for"]] == ["budget"]
        path = ("conversations", conversation_id, "runs", run_id, "budget")
        answer = {"pause_id": paused["paused"]["pause_id"], "add": {"steps": 3}}
        status, raised = await api("POST", *path, body=answer)
        assert status == 200
        assert (raised["paused"], raised["budget"]["steps"]) == (None, 4)
        status, refused = await api("POST", *path, body=answer)
        assert (status, refused["raised"]["add"]) == (409, {"steps": 3})
        [ended] = (await api.ended(conversation_id))["runs"]
        assert (ended["status"], ended["budget"]["steps"], len(ended["raises"])) == ("complete", 4, 1)
        assert (await api("POST", *path, body=answer | {"pause_id": "pause_else"}))[0] == 409
        assert await api.get("runs", state="open") == []
        assert [(run["status"], run["waits_for"]) for run in await api.get("runs")] == [("complete", [])]


@pytest.mark.kernel
async def test_an_unknown_outcome_is_answered_once_and_the_model_is_told(
    api: Api, kernel: Kernel, model: FakeOpenAI
) -> None:
    model.add(call("run_python", code="import os; os._exit(1)"))
    conversation_id, _ = await start(api, kernel_id=kernel.kernel_id)
    waiting = await api.next_approval()
    assert await api.get("approvals", state="unanswered") == []
    await api.decide(waiting)
    [lost] = await api.listed("approvals", state="unanswered")
    assert (lost["approval_id"], lost["state"]) == (waiting["approval_id"], "unknown")
    assert (lost["unknown_answer"], "died" in lost["result"]) == (None, True)
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
    assert await api.get("approvals", state="unanswered") == []
