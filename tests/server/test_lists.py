"""Whoever has no page, only HTTP, sees what runs do and wait for, what was spent and which models there are; and
answers."""

import json
import sqlite3
from contextlib import closing
from typing import Any

import nbformat
import pytest

from agent_kernel.log import audit
from agent_kernel.testing import FakeOpenAI, call, say
from agent_kernel_server.event_log import APPROVAL_EVENT, OUTCOME_EVENT
from tests.server.client import Api, Kernel, OpenChannel, open_notebook
from tests.server.serving import Server
from tests.waiting import look_until, until

pytestmark = pytest.mark.kernel

PROMPT = "Which penguins are heavy?"
CELL = "cell-of-the-agent"


def place(one: Any) -> tuple[Any, ...]:
    return one["notebook"], one["kernel_id"], one["cell_id"], one["prompt"]


async def test_a_call_that_waits_and_its_run_name_notebook_kernel_cell_and_prompt(
    api: Api, loaded: Kernel, model: FakeOpenAI, server: Server, client: OpenChannel
) -> None:
    for name, cell_id in (("first.ipynb", "another-cell"), ("second.ipynb", CELL)):
        cell = nbformat.v4.new_code_cell(f"%%agent\n{PROMPT}", id=cell_id)
        nbformat.write(nbformat.v4.new_notebook(cells=[cell]), server.root / name)
    await open_notebook(server.fetch, "second.ipynb", loaded.kernel_id)
    model.add(call("run_python", code="1"), say("None."))
    await loaded.run(f"%%agent\n{PROMPT}", cell_id=CELL)
    waiting = await api.next_approval()
    [run] = await api.get("runs")
    expected = ("second.ipynb", loaded.kernel_id, CELL, PROMPT)
    assert (place(waiting), place(run)) == (expected, expected)
    names = ("tool_call_id", "approval_id", "tool_name")
    wait = {"kind": "approval", "run_id": None} | {name: waiting[name] for name in names}
    assert (run["status"], run["waits_for"]) == ("running", [wait])
    assert len(await api.get("approvals", state="awaiting_approval", notebook="second.ipynb")) == 1
    assert await api.get("approvals", notebook="first.ipynb") == []

    page = await client(waiting["conversation_id"])
    await page.send({"type": "shown", "id": "s", "run_id": run["run_id"], "shown": True})
    await page.until("ack")
    assert [run["shown"], (await api.get("runs"))[0]["shown"]] == [False, True]

    body = json.dumps({"path": "renamed.ipynb"})
    await server.fetch("api", "contents", "second.ipynb", method="PATCH", body=body)
    await api.listed("runs", notebook="/renamed.ipynb")  # Jupyter tells of it a moment later
    assert [one["notebook"] for one in await api.get("approvals")] == ["renamed.ipynb"]

    await api.decide(waiting)
    await api.ended(waiting["conversation_id"])
    [ended] = await api.get("runs", state="complete")
    assert (*place(ended), ended["waits_for"]) == ("renamed.ipynb", *expected[1:], [])
    assert [one["run_id"] for one in await api.get("runs", run_id=ended["run_id"], limit="0")] == [ended["run_id"]]


async def test_a_queued_run_names_the_one_that_it_waits_for_and_runs_are_listed_by_state(
    api: Api, kernel: Kernel, model: FakeOpenAI
) -> None:
    model.add(call("ask_user", question="Which one?"), say("Done."))
    conversation_id = await api.new_conversation(kernel_id=kernel.kernel_id)
    body = {"content": "First.", "watched": True}
    first = (await api("POST", "conversations", conversation_id, "runs", body=body))[1]["run_id"]
    second = await api.start_run(conversation_id, "Second.")

    async def waits() -> Any:
        runs = await api.get("runs", state="open")
        return runs if runs[0]["waits_for"] else None

    runs = await look_until(waits, "the question")
    assert [run["run_id"] for run in runs] == [first, second]
    assert [(wait["kind"], wait["tool_name"]) for wait in runs[0]["waits_for"]] == [("answer", "ask_user")]
    assert [(wait["kind"], wait["run_id"]) for wait in runs[1]["waits_for"]] == [("run", first)]
    assert [run["run_id"] for run in await api.get("runs", state="queued")] == [second]
    await api("POST", "conversations", conversation_id, "runs", first, "cancel")
    await api.ended(conversation_id)
    assert [run["run_id"] for run in await api.get("runs", limit="1")] == [second]


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
    status, refused = await api("POST", *path, body={"answer": "retry"})
    assert (status, refused["unknown_answer"]) == (409, "continue")
    view = await api.ended(conversation_id)
    assert (view["runs"][0]["status"], view["messages"][-1]["content"]) == ("complete", "I see.")
    assert [one["role"] for one in view["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert await api.get("approvals", state="unanswered") == []


@pytest.mark.usefixtures("fresh")  # what was spent is never forgotten
async def test_what_was_spent_is_told_by_day_and_conversation_and_stays(api: Api, model: FakeOpenAI) -> None:
    model.add(say("Hi.", usage=(1_000, 100)))
    conversation_id = await api.begin()
    await api.ended(conversation_id)
    report = await api.get("usage", days="1")
    assert (report["days"], report["totals"]["input_tokens"], report["totals"]["output_tokens"]) == (1, 1_000, 100)
    assert [(one["day"], one["turns"]) for one in report["by_day"]] == [(report["since"], 1)]
    [of_conversation] = report["by_conversation"]
    assert (of_conversation["conversation_id"], of_conversation["turns"]) == (conversation_id, 1)
    assert (await api("DELETE", "conversations", conversation_id))[0] == 204
    report = await api.get("usage")
    assert (report["totals"]["turns"], report["by_conversation"]) == (1, [])


async def test_the_models_of_each_endpoint_are_listed_and_no_key(api: Api, model: FakeOpenAI) -> None:
    body = await api.get("models")
    assert (body["default"], body["default_reason"]) == ("fake", "AGENT_KERNEL_MODEL names it.")
    known = {"name": "fake", "tools": None, "images": None, "context_tokens": None, "context_is_learned": False}
    endpoint = {"name": "openai", "api": "chat", "models": [known], "left_out": 0, "error": "", "loading": False}
    assert body["endpoints"] == [endpoint]
    assert model.environment()["OPENAI_API_KEY"] not in json.dumps(body)


SECRET = "the-arguments-stay-in-the-log"


@pytest.fixture
def collected(server: Server) -> list[tuple[str, dict[str, Any]]]:
    """What a listener of both schemas hears. The event logger validates each against its schema."""
    heard: list[tuple[str, dict[str, Any]]] = []

    async def listen(logger: Any, schema_id: str, data: dict[str, Any]) -> None:
        heard.append((schema_id, data))

    for schema_id in (APPROVAL_EVENT, OUTCOME_EVENT):
        server.app.event_logger.add_listener(schema_id=schema_id, listener=listen)
    return heard


@pytest.mark.kernel
async def test_a_decision_and_an_outcome_are_collected_without_their_arguments(
    api: Api, kernel: Kernel, model: FakeOpenAI, collected: list[Any], server: Server
) -> None:
    model.add(call("run_python", code=f"'{SECRET}'"), call("no_such_tool"), say("Done."))
    conversation_id = await api.begin(kernel)
    waiting = await api.next_approval()
    assert collected == []
    await api.decide(waiting, scope="conversation")
    await api.ended(conversation_id)
    await until(lambda: len(collected) == 3)
    (_, approval), (_, outcome), (_, invalid) = collected
    assert [schema_id for schema_id, _ in collected] == [APPROVAL_EVENT, OUTCOME_EVENT, OUTCOME_EVENT]
    same = {"conversation_id", "run_id", "tool_call_id", "approval_id", "tool_name", "digest"}
    for event in (approval, outcome):
        assert {name: event[name] for name in same} == {name: waiting[name] for name in same}
    assert (approval["decision"], approval["by"], approval["scope"]) == ("approved", "user", "conversation")
    assert (outcome["state"], invalid["state"]) == ("success", "invalid")
    assert SECRET not in json.dumps(collected)
    with closing(sqlite3.connect(server.data / "agent-kernel" / "agent-kernel.sqlite")) as sql:
        entries = {entry.number: entry for entry in audit.read_entries(sql)}
        assert audit.check(sql) is None
    for event in (approval, outcome):
        assert entries[event["audit_number"]].hash == event["audit_hash"]
    assert SECRET in entries[approval["audit_number"]].text
