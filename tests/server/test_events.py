"""Approvals and outcomes on Jupyter's event log, as a site that collects them gets them."""

import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from agent_kernel.log import audit
from agent_kernel.testing import FakeOpenAI, call, say
from agent_kernel_server.event_log import APPROVAL_EVENT, OUTCOME_EVENT
from tests.server.client import Api, Kernel
from tests.server.serving import Server
from tests.waiting import until

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
