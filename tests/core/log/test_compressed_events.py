"""Events that were compressed are the events that were sent: every frame, byte by byte, from any place."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent_kernel.log import event_rows, runs, tool_calls
from agent_kernel.log.event_rows import EventWriter, compress_events
from agent_kernel.log.tables import make_tables
from agent_kernel.protocol.events import (
    LoggedEvent,
    MessageEvent,
    ReasoningEvent,
    TokenEvent,
    ToolCompleteEvent,
    ToolOutputEvent,
)
from agent_kernel.protocol.views import OutputView
from tests.core.runtime.turns.fuzzing import rounds

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(
    ["one\ntwo\r\n", '"type":"tool_output"', "\x00\x1f\x7f\u2028", "run_a", "long " * 4_000, "é" * 40_000]
)
STEPS = st.lists(
    st.tuples(st.sampled_from(["token", "reasoning", "answer", "call", "output", "unit", "compress", "commit"]), TEXTS),
    max_size=25,
)


class Conversations:
    """Two conversations in one log, and the frames that were sent of each."""

    def __init__(self, sql: sqlite3.Connection) -> None:
        self.sql = sql
        self.writer = EventWriter(sql)
        self._frames = self.writer.begin()
        self.sent: dict[int, list[str]] = {1: [], 2: []}
        self.outputs: list[str] = []
        self._names = (f"n{number}" for number in range(10_000))
        make_tables(sql)
        for number in self.sent:
            runs.add_conversation(sql, f"conv_{number}", None, None, None)

    def emit(self, number: int, event: LoggedEvent) -> None:
        self.writer.append(number, f"conv_{number}", event)

    def end_unit(self) -> None:
        """What was emitted since the last one is written together, and sent."""
        self.writer.flush()
        for frame in self._frames:
            self.sent[frame.conversation].append(frame.text)
        self._frames = self.writer.begin()

    def step(self, what: str, text: str) -> None:
        name = next(self._names)
        match what:
            case "token":
                self.emit(1, TokenEvent(run_id="run_a", message_id="m", content=text))
            case "reasoning":
                self.emit(2, ReasoningEvent(run_id="run_b", message_id="m", content=text))
            case "answer":
                self.say(name, {"role": "assistant", "content": text})
                self.emit(1, MessageEvent(run_id="run_a", message_id=name, role="assistant", content=text))
            case "call":
                self.call(name, text)
            case "output":
                output = OutputView(kind="stream", name="stdout", text=text)
                self.emit(1, ToolOutputEvent(run_id="run_a", tool_call_id="c", index=0, output=output))
                self.outputs.append(text)
            case "unit":
                self.end_unit()
            case "compress":
                self.end_unit()
                compress_events(self.sql, 1)
            case "commit":
                self.end_unit()
                self.writer.finish()
                self._frames = self.writer.begin()

    def call(self, name: str, result: str) -> None:
        tool_calls.propose(
            self.sql, 1, tool_calls.Proposal(name, name, "run_a", "look", "{}", "d", read_only=True, recorded=False)
        )
        tool_calls.move(self.sql, 1, name, "superseded", [], result=result)
        self.emit(
            1,
            ToolCompleteEvent(
                run_id="run_a",
                tool_call_id=name,
                tool_name="look",
                tool_result=result,
                status="cancelled",
                state="superseded",
            ),
        )
        self.say(name, {"role": "tool", "tool_call_id": name, "content": result})

    def say(self, name: str, body: dict[str, Any]) -> None:
        event_rows.append_message(self.sql, 1, name, "run_a", body)

    def resumed(self, number: int, after: int, limit: int) -> Iterator[str]:
        """As a client gets them that left off after a `seq`."""
        while frames := event_rows.frames_after(self.sql, number, f"conv_{number}", after, limit):
            after = frames[-1].seq
            yield from (frame.text for frame in frames)


@given(STEPS, st.integers(1, 7))
@rounds(60, 3_000)
def test_a_client_that_resumes_from_anywhere_gets_exactly_what_was_sent(
    steps: list[tuple[str, str]], limit: int
) -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as sql:
        log = Conversations(sql)
        for what, text in steps:
            log.step(what, text)
        log.end_unit()
        for number, sent in log.sent.items():
            for after in range(len(sent) + 1):
                assert list(log.resumed(number, after, limit)) == sent[after:]
            assert event_rows.last_seq(sql, number) == len(sent)
        shown = event_rows.outputs_by_call(sql, 1).get("c", [])
        assert [output.text for output in shown] == log.outputs


@given(st.lists(TEXTS, max_size=12))
@rounds(40, 2_000)
def test_messages_are_read_as_they_were_said(results: list[str]) -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as sql:
        log = Conversations(sql)
        for number, result in enumerate(results):
            log.call(f"c{number}", result)
        log.say("cut", {"role": "tool", "tool_call_id": "c0", "content": "a shorter text than the call's result"})
        said = [body for _, _, body in event_rows.read_messages(sql, 1)]
        assert said[:-1] == [
            {"role": "tool", "tool_call_id": f"c{number}", "content": result} for number, result in enumerate(results)
        ]
        assert said[-1]["content"] == "a shorter text than the call's result"
