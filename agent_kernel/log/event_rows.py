"""Events and messages of conversations, append-only.

An event gets its number, its `seq`, when it is written: 1, 2, 3, ... in each conversation.
"""

import sqlite3
from collections.abc import Collection, Iterator, Set
from dataclasses import dataclass
from typing import Any

import orjson

from agent_kernel.log.packing import pack, unpack
from agent_kernel.protocol.events import LoggedEvent
from agent_kernel.protocol.views import ImageRefs, MessageView, OutputView

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
    for _, event in _events(sql, conversation, ("tool_output",), after=after):
        outputs.setdefault(event["tool_call_id"], []).append(OutputView.model_validate(event["output"]))
    return outputs


def _events(
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


def unfinished_messages(sql: sqlite3.Connection, conversation: int, run_id: str) -> list[str]:
    """The ids of messages whose tokens were shown but that were never completed."""
    begun: dict[str, None] = {}
    for _, event in _events(sql, conversation, ("token", "reasoning", "message"), [run_id]):
        match event["type"]:
            case "token" | "reasoning":
                begun[event["message_id"]] = None
            case "message":
                begun.pop(event["message_id"], None)
    return list(begun)


def cut_off_answers(
    sql: sqlite3.Connection, conversation: int, run_id: str, after: Position = START
) -> list[dict[str, Any]]:
    """What was shown of answers that never became whole, such as one whose connection was cut, as `MessageView`s."""
    begun: dict[str, list[str]] = {}
    for _, event in _events(sql, conversation, ("token", "message"), [run_id], after):
        match event["type"]:
            case "token":
                begun.setdefault(event["message_id"], []).append(event["content"])
            case "message":
                begun.pop(event["message_id"], None)
    said = {message_id: "".join(texts) for message_id, texts in begun.items()}
    return [
        message_values(message_id, run_id, {"role": "assistant", "content": text})
        for message_id, text in said.items()
        if text.strip()
    ]


def shown_cards(sql: sqlite3.Connection, conversation: int, run_id: str, after: Position) -> set[str]:
    """The ids of a run's calls whose cards were shown. `after` is a place before the run's beginning."""
    return {event["tool_call_id"] for _, event in _events(sql, conversation, ("tool_state",), [run_id], after)}


def unfinished_cards(sql: sqlite3.Connection, conversation: int, run_id: str) -> list[str]:
    """The ids of calls whose cards were shown while the model wrote them, and that the model never completed."""
    shown: dict[str, None] = {}
    for _, event in _events(sql, conversation, ("tool_state", "tool_complete"), [run_id]):
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
    for seq, event in _events(sql, conversation, _OF_TURNS, run_ids):
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


MESSAGE = (
    "message_id, messages.run_id, body, tool_call_id, result, images "
    "FROM messages LEFT JOIN tool_calls ON tool_calls.number = body"
)
"""The id of a message, that of its run, and the columns that `message_body` takes."""


def append_message(
    sql: sqlite3.Connection, conversation: int, message_id: str, run_id: str, body: dict[str, Any]
) -> None:
    """Append a message in the log's form: the wire message, and beside it what only a person sees. A tool message whose
    text is its call's result is stored as the number of that call."""
    number = _call_with_result(sql, conversation, body) if body["role"] == "tool" else None
    stored = pack(orjson.dumps(body).decode()) if number is None else number
    sql.execute(
        "INSERT INTO messages "
        "SELECT ?1, coalesce(max(position), 0) + 1, ?2, ?3, ?4 FROM messages WHERE conversation = ?1",
        (conversation, message_id, run_id, stored),
    )


def _call_with_result(sql: sqlite3.Connection, conversation: int, body: dict[str, Any]) -> int | None:
    """The number of the call that a tool message answers, if the call's row says all that the message says."""
    row = sql.execute(
        "SELECT number, result, images FROM tool_calls WHERE conversation = ? AND tool_call_id = ?",
        (conversation, body["tool_call_id"]),
    ).fetchone()
    if row is None or row[1] is None or unpack(row[1]) != body["content"]:
        return None
    return row[0] if body.get("images") == (row[2] and orjson.loads(row[2])) else None


def read_messages(
    sql: sqlite3.Connection, conversation: int, after: Position = START
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(message_id, run_id, body) of every message, in order."""
    rows = sql.execute(
        f"SELECT {MESSAGE} WHERE messages.conversation = ? AND position > ? ORDER BY position",
        (conversation, after.position),
    )
    for message_id, run_id, *stored in rows:
        yield message_id, run_id, message_body(*stored)


def message_body(
    stored: int | str | bytes, tool_call_id: str | None, result: str | bytes | None, images: str | None
) -> dict[str, Any]:
    """A message in the log's form, made of a row with the columns `MESSAGE`. Raises `Unreadable`."""
    body: dict[str, Any]
    if isinstance(stored, int):
        assert result is not None
        body = {"role": "tool", "tool_call_id": tool_call_id, "content": unpack(result)}
        return body if images is None else body | {"images": orjson.loads(images)}
    body = orjson.loads(unpack(stored))
    return body


def prompt_images(sql: sqlite3.Connection, conversation: int, message_id: str | None = None) -> dict[str, ImageRefs]:
    """References to the pictures in messages of the user, by their ids: in all, or in one."""
    rows = sql.execute(
        f"SELECT {MESSAGE} WHERE messages.conversation = ? AND typeof(body) != 'integer' "
        "AND coalesce(messages.message_id = ?, 1) ORDER BY position",
        (conversation, message_id),
    )
    found: dict[str, ImageRefs] = {}
    for one, _, *stored in rows:
        body = message_body(*stored)
        if body["role"] == "user" and body.get("images"):
            found[one] = body["images"]
    return found


def seq_before_run(sql: sqlite3.Connection, conversation: int, message_id: str | None) -> int:
    """The `seq` before the prompt of the run that a message belongs to; of the newest run where there is no such
    message."""
    row = sql.execute(
        "SELECT run_id FROM messages WHERE conversation = ? AND message_id = ?", (conversation, message_id)
    ).fetchone()
    run_id = row[0] if row is not None else last_run(sql, conversation)
    said = _events(sql, conversation, ("message",), [run_id]) if run_id is not None else ()
    return next((seq - 1 for seq, event in said if event["role"] == "user"), 0)


def has_prompt(sql: sqlite3.Connection, conversation: int, run_id: str) -> bool:
    """Whether the prompt of a run has been written."""
    row = sql.execute(
        "SELECT 1 FROM messages WHERE conversation = ? AND run_id = ? LIMIT 1", (conversation, run_id)
    ).fetchone()
    return row is not None


def last_run(sql: sqlite3.Connection, conversation: int) -> str | None:
    """The id of the run of the last message."""
    row = sql.execute(
        "SELECT run_id FROM messages WHERE conversation = ? ORDER BY position DESC LIMIT 1", (conversation,)
    ).fetchone()
    return row[0] if row is not None else None


def message_values(message_id: str, run_id: str, body: dict[str, Any]) -> dict[str, Any]:
    """The fields of `MessageView`, of a message in the log's form."""
    return {
        "message_id": message_id,
        "run_id": run_id,
        "role": body["role"],
        "content": body.get("content") or "",
        "tool_calls": [call["id"] for call in body.get("tool_calls", ())],
        "tool_call_id": body.get("tool_call_id"),
        "reasoning": body.get("reasoning", ""),
    }


def message_views(sql: sqlite3.Connection, conversation: int, after: Position) -> list[MessageView]:
    """The messages of a conversation, in order."""
    said = read_messages(sql, conversation, after)
    return [MessageView.model_validate(message_values(*one)) for one in said]


def add_compaction(sql: sqlite3.Connection, conversation: int, body: dict[str, Any]) -> None:
    sql.execute(
        "INSERT INTO compactions (conversation, body) VALUES (?, ?)", (conversation, pack(orjson.dumps(body).decode()))
    )


def last_compaction(sql: sqlite3.Connection, conversation: int) -> dict[str, Any] | None:
    row = sql.execute(
        "SELECT body FROM compactions WHERE conversation = ? ORDER BY number DESC LIMIT 1", (conversation,)
    ).fetchone()
    if row is None:
        return None
    body: dict[str, Any] = orjson.loads(unpack(row[0]))
    return body
