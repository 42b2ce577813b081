"""Events and messages are read as they were written, from any place."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from agent_kernel.log import event_rows, message_rows, runs, tool_calls
from agent_kernel.log.tables import make_tables
from agent_kernel.protocol.events import TokenEvent, ToolOutputEvent
from agent_kernel.protocol.views import OutputView

TEXTS = ["", "one\ntwo\r\n", '"type":"tool_output"', "\x00\x1f\x7f\u2028", "run_a", "long " * 4_000, "é" * 40_000]


@pytest.fixture
def sql() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        make_tables(connection)
        for name in ("conv_1", "conv_2"):
            runs.add_conversation(connection, name, None, None, None)
        yield connection


def test_a_client_that_resumes_from_anywhere_gets_exactly_what_was_sent(sql: sqlite3.Connection) -> None:
    sent: list[event_rows.Frame] = []
    for text in TEXTS:
        output = OutputView(kind="stream", name="stdout", text=text)
        for event in (
            TokenEvent(message_id="m", content=text),
            ToolOutputEvent(tool_call_id="c", index=0, output=output),
        ):
            sent.append(event_rows.append_event(sql, 1, "conv_1", event))
            event_rows.append_event(sql, 2, "conv_2", event)
    for after in range(len(sent) + 1):
        assert event_rows.frames_after(sql, 1, "conv_1", after, 5) == sent[after : after + 5]
    assert event_rows.last_seq(sql, 2) == len(sent)
    assert [TokenEvent.model_validate_json(frame.text).content for frame in sent[::2]] == TEXTS
    assert [output.text for output in event_rows.outputs_by_call(sql, 1)["c"]] == TEXTS


def test_messages_are_read_as_they_were_said(sql: sqlite3.Connection) -> None:
    bodies = [{"role": "tool", "tool_call_id": f"c{number}", "content": text} for number, text in enumerate(TEXTS)]
    for body in bodies:
        name = body["tool_call_id"]
        proposal = tool_calls.Proposal(name, name, "run_a", "look", "{}", "d", read_only=True, recorded=False)
        tool_calls.propose(sql, 1, proposal)
        tool_calls.move(sql, 1, name, "superseded", [], result=body["content"])
    bodies.append({"role": "tool", "tool_call_id": "c0", "content": "a shorter text than the call's result"})
    for body in bodies:
        message_rows.append_message(sql, 1, "m", "run_a", body)
    assert [body for _, _, body in message_rows.read_messages(sql, 1)] == bodies
