"""Events and messages. Each is written once; `seq` is given out here, at the append."""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any

import orjson

from agent_kernel.log import blocks
from agent_kernel.log.bodies import pack, unpack
from agent_kernel.protocol.events import LoggedEvent, RunEvent
from agent_kernel.protocol.views import MessageView, OutputView

# Nothing where there are later events: then another server on the same log wrote to this conversation.
_INSERT = (
    "INSERT INTO events SELECT ?1, ?3, ?4, ?5 "
    "WHERE NOT EXISTS (SELECT 1 FROM events WHERE conversation = ?1 AND seq >= ?2)"
)
_ENVELOPE = {"seq", "conversation_id"}


@dataclass(frozen=True, slots=True)
class Frame:
    """A committed event, ready to be sent."""

    conversation: int
    seq: int
    text: str


@dataclass(frozen=True, slots=True)
class _Unwritten:
    """An event that has no number yet."""

    conversation: int
    conversation_id: str
    kind: str
    body: str


class Journal:
    """Appends events and remembers the last `seq` of each conversation. Used on the log's thread only."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._sql = connection
        self._last: dict[int, int] = {}
        self._loose: Counter[int] = Counter()
        """Events of each conversation that are rows of their own, as far as this process wrote them."""
        self._due: set[int] = set()
        self._unwritten: list[_Unwritten] = []
        self._frames: list[Frame] = []

    def begin(self) -> list[Frame]:
        """Start to collect the frames of a unit of work."""
        self._unwritten = []
        self._frames = []
        return self._frames

    def finish(self) -> None:
        """Before the commit: fold the events of conversations where a run ended, or where many have gathered."""
        while self._due:
            conversation = self._due.pop()
            blocks.fold(self._sql, conversation)
            del self._loose[conversation]
        self._frames = []  # they are the transaction's

    def forget(self, frames: list[Frame]) -> None:
        """The transaction was rolled back: its numbers were never given out."""
        for frame in frames:
            self._last.pop(frame.conversation, None)

    def append(self, conversation: int, conversation_id: str, event: LoggedEvent) -> None:
        """Append an event; `flush` writes it. The envelope's `seq` and `conversation_id` are not stored in the body:
        they are the row's key, and are put back when it is read."""
        body = event.model_dump_json(exclude=_ENVELOPE)
        self._unwritten.append(_Unwritten(conversation, conversation_id, event.type, body))
        self._loose[conversation] += 1
        if self._loose[conversation] >= blocks.LOOSE or (isinstance(event, RunEvent) and event.run.ended_at):
            self._due.add(conversation)

    def flush(self) -> None:
        """Write what was appended: one row, because each costs as much as several events. Whoever reads events in the
        unit of work that appended some does this first; the end of the unit does it."""
        unwritten, self._unwritten = self._unwritten, []
        for conversation, group in groupby(unwritten, attrgetter("conversation")):
            events = list(group)
            first = self._insert(conversation, events)
            for seq, event in enumerate(events, start=first):
                text = _frame_text(seq, event.conversation_id, event.body)
                self._frames.append(Frame(conversation, seq, text))

    def _insert(self, conversation: int, events: list["_Unwritten"]) -> int:
        """Write a row; the `seq` of its first event."""
        kind, body = blocks.loose_row([(event.kind, event.body) for event in events])
        last = self._last.get(conversation)
        first = (last_seq(self._sql, conversation) if last is None else last) + 1
        row = (conversation, first, first + len(events) - 1, kind, body)
        if self._sql.execute(_INSERT, row).rowcount != 1:
            first = last_seq(self._sql, conversation) + 1  # inside a transaction it stays so
            self._sql.execute(_INSERT, (conversation, first, first + len(events) - 1, kind, body))
        self._last[conversation] = first + len(events) - 1
        return first


def _frame_text(seq: int, conversation_id: str, body: str) -> str:
    return f'{{"seq":{seq},"conversation_id":"{conversation_id}",{body[1:]}'


def last_seq(sql: sqlite3.Connection, conversation: int) -> int:
    (last,) = sql.execute("SELECT max(seq) FROM events WHERE conversation = ?", (conversation,)).fetchone()
    return last or 0


def frames_after(sql: sqlite3.Connection, conversation: int, conversation_id: str, seq: int, limit: int) -> list[Frame]:
    """The next events after `seq`, in order: at least `limit` where there are so many, and to the end of a block."""
    frames: list[Frame] = []
    rows = sql.execute(
        "SELECT seq, kind, body FROM events WHERE conversation = ? AND seq > ? ORDER BY seq", (conversation, seq)
    )
    for row in rows:
        frames.extend(
            Frame(conversation, number, _frame_text(number, conversation_id, body))
            for number, body in blocks.bodies(sql, conversation, row)
            if number > seq
        )
        if len(frames) >= limit:
            break
    return frames


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a conversation: what comes later can be read without reading what came before."""

    position: int = 0
    """Of the last message."""
    seq: int = 0
    """Of the last event."""


START = Mark()


def mark(sql: sqlite3.Connection, conversation: int) -> Mark:
    """Where the conversation is now."""
    (position,) = sql.execute("SELECT max(position) FROM messages WHERE conversation = ?", (conversation,)).fetchone()
    return Mark(position or 0, last_seq(sql, conversation))


def outputs_by_call(sql: sqlite3.Connection, conversation: int, after: Mark = START) -> dict[str, list[OutputView]]:
    """The live outputs of each call, in order."""
    outputs: dict[str, list[OutputView]] = {}
    rows = sql.execute(
        f"SELECT seq, kind, body FROM events WHERE conversation = ? AND seq > ? AND {blocks.IS_OUTPUT} ORDER BY seq",
        (conversation, after.seq),
    )
    for row in rows:
        for seq, event in outputs_of(blocks.bodies(sql, conversation, row)):
            if seq > after.seq:
                outputs.setdefault(event["tool_call_id"], []).append(OutputView.model_validate(event["output"]))
    return outputs


def outputs_of(bodies: Iterable[tuple[int, str]]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The `tool_output` events among events, each with its `seq`."""
    for seq, body in bodies:
        if blocks.OUTPUT_MARK in body:
            event = orjson.loads(body)
            if event["type"] == "tool_output":
                yield seq, event


def _events_of_run(
    sql: sqlite3.Connection, conversation: int, run_id: str, after: Mark = START
) -> Iterator[dict[str, Any]]:
    rows = sql.execute(
        "SELECT seq, kind, body FROM events WHERE conversation = ? AND seq > ? ORDER BY seq", (conversation, after.seq)
    )
    for row in rows:
        for _, body in blocks.bodies(sql, conversation, row):
            if run_id in body and (event := orjson.loads(body))["run_id"] == run_id:
                yield event


def unfinished_messages(sql: sqlite3.Connection, conversation: int, run_id: str) -> list[str]:
    """Messages of a run whose tokens were shown but that never came to an end."""
    begun: dict[str, None] = {}
    for event in _events_of_run(sql, conversation, run_id):
        match event["type"]:
            case "token" | "reasoning":
                begun[event["message_id"]] = None
            case "message":
                begun.pop(event["message_id"], None)
    return list(begun)


def shown_cards(sql: sqlite3.Connection, conversation: int, run_id: str, after: Mark) -> set[str]:
    """Calls of a run whose cards were shown. `after` is a place before the run's beginning."""
    events = _events_of_run(sql, conversation, run_id, after)
    return {event["tool_call_id"] for event in events if event["type"] == "tool_state"}


def unfinished_cards(sql: sqlite3.Connection, conversation: int, run_id: str) -> list[str]:
    """Calls of a run whose cards were shown while the model wrote them, and that it never finished."""
    shown: dict[str, None] = {}
    for event in _events_of_run(sql, conversation, run_id):
        match event["type"]:
            case "tool_state":
                shown[event["tool_call_id"]] = None
            case "tool_complete":
                shown.pop(event["tool_call_id"], None)
    known = sql.execute("SELECT tool_call_id FROM tool_calls WHERE conversation = ?", (conversation,))
    for (tool_call_id,) in known:
        shown.pop(tool_call_id, None)
    return list(shown)


MESSAGE = "body, tool_call_id, result, images FROM messages LEFT JOIN tool_calls ON tool_calls.number = body"
"""What `message_body` makes a message of."""


def append_message(
    sql: sqlite3.Connection, conversation: int, message_id: str, run_id: str, body: dict[str, Any]
) -> None:
    """Append a message in the log's form: the wire message, and beside it what only a person sees. A tool message that
    says what the ledger has as its call's result is stored as the number of that call."""
    stored: int | str | bytes | None = None
    if body["role"] == "tool":
        stored = _same_result(sql, conversation, body)
    if stored is None:
        stored = pack(orjson.dumps(body).decode())
    sql.execute(
        "INSERT INTO messages SELECT ?, coalesce(max(position), 0) + 1, ?, ?, ? FROM messages WHERE conversation = ?",
        (conversation, message_id, run_id, stored, conversation),
    )


def _same_result(sql: sqlite3.Connection, conversation: int, body: dict[str, Any]) -> int | None:
    row = sql.execute(
        "SELECT number, result, images FROM tool_calls WHERE conversation = ? AND tool_call_id = ?",
        (conversation, body["tool_call_id"]),
    ).fetchone()
    if row is None or row[1] is None or unpack(row[1]) != body["content"]:
        return None
    return row[0] if body.get("images") == (row[2] and orjson.loads(row[2])) else None


def read_messages(
    sql: sqlite3.Connection, conversation: int, after: Mark = START
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(message_id, run_id, body) of every message, in order."""
    rows = sql.execute(
        f"SELECT message_id, messages.run_id, {MESSAGE} WHERE messages.conversation = ? AND position > ? "
        "ORDER BY position",
        (conversation, after.position),
    )
    for message_id, run_id, *stored in rows:
        yield message_id, run_id, message_body(*stored)[0]


def message_body(
    stored: int | str | bytes, tool_call_id: str | None, result: str | bytes | None, images: str | None
) -> tuple[dict[str, Any], blocks.Text]:
    """A message in the log's form, and the text that blocks are packed against."""
    if isinstance(stored, int):
        assert result is not None
        text = unpack(result)
        body: dict[str, Any] = {"role": "tool", "tool_call_id": tool_call_id, "content": text}
        return body if images is None else body | {"images": orjson.loads(images)}, (True, text)
    text = unpack(stored)
    return orjson.loads(text), (False, text)


def has_prompt(sql: sqlite3.Connection, conversation: int, run_id: str) -> bool:
    """Whether the prompt of a run has been written."""
    row = sql.execute(
        "SELECT 1 FROM messages WHERE conversation = ? AND run_id = ? LIMIT 1", (conversation, run_id)
    ).fetchone()
    return row is not None


def last_run(sql: sqlite3.Connection, conversation: int) -> str | None:
    """The run in which something was said last."""
    row = sql.execute(
        "SELECT run_id FROM messages WHERE conversation = ? ORDER BY position DESC LIMIT 1", (conversation,)
    ).fetchone()
    return row[0] if row is not None else None


def message_values(message_id: str, run_id: str, body: dict[str, Any]) -> dict[str, Any]:
    """What `MessageView` has, of a message in the log's form."""
    return {
        "message_id": message_id,
        "run_id": run_id,
        "role": body["role"],
        "content": body.get("content") or "",
        "tool_calls": [call["id"] for call in body.get("tool_calls", ())],
        "tool_call_id": body.get("tool_call_id"),
        "reasoning": body.get("reasoning", ""),
    }


def message_views(sql: sqlite3.Connection, conversation: int, after: Mark = START) -> list[MessageView]:
    said = read_messages(sql, conversation, after)
    return [MessageView.model_validate(message_values(*one)) for one in said]
