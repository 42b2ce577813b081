"""Events of conversations, append-only.

An event gets its number, its `seq`, when it is written: 1, 2, 3, ... in each conversation.
"""

import sqlite3
from collections.abc import Collection, Iterator, Set
from dataclasses import dataclass
from typing import Any

import orjson

from agent_kernel.log.packing import pack, unpack
from agent_kernel.protocol.events import LoggedEvent
from agent_kernel.protocol.views import OutputView

_ENVELOPE = {"seq", "conversation_id", "run_id", "type"}
"""Fields of an event that are not in its stored text."""
_OF_TURNS = (
    *("token", "reasoning", "message", "error"),
    *("tool_state", "approval_request", "tool_start", "tool_complete"),
)
"""The events that tell of the model's turns and their calls."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A committed event, ready to be sent."""

    conversation: int
    seq: int
    text: str


def append_event(sql: sqlite3.Connection, conversation: int, conversation_id: str, event: LoggedEvent) -> Frame:
    """Append an event in a transaction, in which its number stays its own: no other process can write meanwhile."""
    body = event.model_dump_json(exclude=_ENVELOPE)
    ((seq,),) = sql.execute(
        "INSERT INTO events SELECT ?1, coalesce(max(seq), 0) + 1, (SELECT number FROM runs WHERE run_id = ?2), ?3, ?4 "
        "FROM events WHERE conversation = ?1 RETURNING seq",
        (conversation, event.run_id, event.type, pack(body)),
    ).fetchall()
    return _frame(conversation, conversation_id, seq, event.run_id, event.type, body)


def _frame(conversation: int, conversation_id: str, seq: int, run_id: str | None, kind: str, body: str) -> Frame:
    envelope = {"type": kind, "seq": seq, "conversation_id": conversation_id, "run_id": run_id}
    return Frame(conversation, seq, f"{orjson.dumps(envelope).decode()[:-1]},{body[1:]}")


def last_seq(sql: sqlite3.Connection, conversation: int) -> int:
    """0 where there is no event."""
    (last,) = sql.execute("SELECT max(seq) FROM events WHERE conversation = ?", (conversation,)).fetchone()
    return last or 0


def frames_after(sql: sqlite3.Connection, conversation: int, conversation_id: str, seq: int, limit: int) -> list[Frame]:
    """The next `limit` events after `seq`, in order. Raises `Unreadable`."""
    rows = sql.execute(
        "SELECT seq, run_id, type, body FROM events LEFT JOIN runs ON runs.number = run "
        "WHERE events.conversation = ? AND seq > ? ORDER BY seq LIMIT ?",
        (conversation, seq, limit),
    )
    return [
        _frame(conversation, conversation_id, number, run_id, kind, unpack(body)) for number, run_id, kind, body in rows
    ]


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a conversation. What comes later can be read from there."""

    position: int = 0
    """Of the last message."""
    seq: int = 0
    """Of the last event."""


START = Position()


def current_position(sql: sqlite3.Connection, conversation: int) -> Position:
    """The conversation's present position."""
    (position,) = sql.execute("SELECT max(position) FROM messages WHERE conversation = ?", (conversation,)).fetchone()
    return Position(position or 0, last_seq(sql, conversation))


def outputs_by_call(sql: sqlite3.Connection, conversation: int, after: Position = START) -> dict[str, list[OutputView]]:
    """The live outputs of each call, in order."""
    outputs: dict[str, list[OutputView]] = {}
    for _, event in read_events(sql, conversation, ("tool_output",), after=after):
        outputs.setdefault(event["tool_call_id"], []).append(OutputView.model_validate(event["output"]))
    return outputs


def read_events(
    sql: sqlite3.Connection,
    conversation: int,
    types: Collection[str],
    run_ids: Collection[str] = (),
    after: Position = START,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The events of these types, of all runs or of these, in order, each with its `seq`. Raises `Unreadable`."""
    chosen = f"(SELECT number FROM runs WHERE run_id IN ({', '.join('?' * len(run_ids))}))"
    of_runs = f"AND run IN {chosen}" if run_ids else ""
    rows = sql.execute(
        "SELECT seq, type, body FROM events WHERE conversation = ? AND seq > ? "
        f"AND type IN ({', '.join('?' * len(types))}) {of_runs} ORDER BY seq",
        (conversation, after.seq, *types, *run_ids),
    )
    for seq, kind, body in rows:
        yield seq, orjson.loads(unpack(body)) | {"type": kind}


def unfinished_messages(
    sql: sqlite3.Connection, conversation: int, run_id: str, after: Position = START
) -> dict[str, str]:
    """What was shown of messages that were never completed, such as one whose connection was cut, by their ids."""
    begun: dict[str, str] = {}
    for _, event in read_events(sql, conversation, ("token", "reasoning", "message"), [run_id], after):
        message_id = event["message_id"]
        if event["type"] == "message":
            begun.pop(message_id, None)
        else:
            shown = event["content"] if event["type"] == "token" else ""
            begun[message_id] = begun.get(message_id, "") + shown
    return begun


def shown_cards(sql: sqlite3.Connection, conversation: int, run_id: str, after: Position) -> set[str]:
    """The ids of a run's calls whose cards were shown. `after` is a place before the run's beginning."""
    return {event["tool_call_id"] for _, event in read_events(sql, conversation, ("tool_state",), [run_id], after)}


def unfinished_cards(sql: sqlite3.Connection, conversation: int, run_id: str) -> list[str]:
    """The ids of calls whose cards were shown while the model wrote them, and that the model never completed."""
    shown: dict[str, None] = {}
    for _, event in read_events(sql, conversation, ("tool_state", "tool_complete"), [run_id]):
        match event["type"]:
            case "tool_state":
                shown[event["tool_call_id"]] = None
            case "tool_complete":
                shown.pop(event["tool_call_id"], None)
    known = sql.execute("SELECT tool_call_id FROM tool_calls WHERE conversation = ?", (conversation,))
    for (tool_call_id,) in known:
        shown.pop(tool_call_id, None)
    return list(shown)


def shown_only_by_events(sql: sqlite3.Connection, conversation: int, run_ids: Set[str], calls: Set[str]) -> int | None:
    """The `seq` of the first event of these runs that shows what neither their messages nor their `calls` do: where the
    turn begins that the model is writing. `None` where there is none; 1 where earlier events alone show something,
    such as the error before a run was tried again. The events from there on can be applied to messages and calls."""
    first: int | None = None
    for seq, event in read_events(sql, conversation, _OF_TURNS, run_ids):
        match event["type"]:
            case "token" | "reasoning":
                first = first or seq
            case "tool_state" if event["tool_call_id"] not in calls:
                first = first or seq
            case "tool_complete" if event["tool_call_id"] not in calls:
                return 1
            case "error" if "pause_id" not in event.get("details", ()):
                return 1
            case "approval_request" | "tool_start" | "tool_complete" | "message" if event.get("role") != "user":
                first = None
    return first
