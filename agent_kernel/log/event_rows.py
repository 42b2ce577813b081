"""Events and messages of conversations, append-only.

An event gets its number, its `seq`, when it is written: 1, 2, 3, ... in each conversation. The events of one unit of
work are one row of text, one event a line. When a run ends, or many events have gathered, rows are joined and
compressed with zlib, once. A row's `seq` is that of its last event, so the row with a given event is found by its key.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import groupby, takewhile
from operator import attrgetter
from typing import Any

import orjson

from agent_kernel.log.packing import pack, unpack
from agent_kernel.protocol.events import LoggedEvent, RunEvent
from agent_kernel.protocol.views import ImageRefs, MessageView, OutputView

MOST_LOOSE = 256
"""A run that goes on has its events compressed each time this many have gathered."""
_MOST_EVENTS, _MOST_CHARACTERS = 256, 256_000
"""Limits of one compressed row. It is read as a whole."""
_MOST_ROWS = 4_096
"""Rows compressed in one transaction, at most."""

_PLAIN, _WITH_OUTPUTS = "events", "events with outputs"
"""Kinds of rows."""
HAS_OUTPUTS = f"kind = '{_WITH_OUTPUTS}'"
"""For SQL: whether a row may hold the outputs of calls."""
_OUTPUT_MARK = '"type":"tool_output"'
"""Part of the text of every such event, and of few others."""
_LINE = "\n"
"""Between the events of a row. JSON writes a line feed in a string as an escape."""

# Inserts nothing if there are later events: then another server on the same log wrote to this conversation.
_INSERT = (
    "INSERT INTO events SELECT ?1, ?3, ?4, ?5 "
    "WHERE NOT EXISTS (SELECT 1 FROM events WHERE conversation = ?1 AND seq >= ?2)"
)
_ENVELOPE = {"seq", "conversation_id"}
"""Fields that are not in the stored text: they are the row's key."""

_OF_TURNS = tuple(
    f'"type":"{kind}"'
    for kind in (
        *("token", "reasoning", "message", "error"),
        *("tool_state", "approval_request", "tool_start", "tool_complete"),
    )
)
"""Part of the text of the events that tell of the model's turns and their calls, and of few others."""

EventRow = tuple[int, str | bytes]
"""`seq` and `body` of a row of `events`."""


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
    body: str


class EventWriter:
    """Appends events and remembers the last `seq` of each conversation. Used on the log's thread only."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._sql = connection
        self._last: dict[int, int] = {}
        self._loose: Counter[int] = Counter()
        """Events of each conversation that this process wrote since it last compressed some."""
        self._due: set[int] = set()
        """Conversations with events to compress."""
        self._unwritten: list[_Unwritten] = []
        self._frames: list[Frame] = []

    def begin(self) -> list[Frame]:
        """Start a unit of work. Its frames are added to the list that is returned."""
        self._unwritten = []
        self._frames = []
        return self._frames

    def finish(self) -> None:
        """Before the commit: compress the events of conversations where a run ended, or where many have gathered."""
        for conversation in self._due:
            compress_events(self._sql, conversation)
            del self._loose[conversation]
        self._due.clear()
        self._frames = []  # they are the transaction's

    def forget(self, frames: list[Frame]) -> None:
        """The transaction was rolled back: the numbers of these frames were never given out."""
        for frame in frames:
            self._last.pop(frame.conversation, None)

    def append(self, conversation: int, conversation_id: str, event: LoggedEvent) -> None:
        """Append an event. It has no number and can't be read before `flush`."""
        body = event.model_dump_json(exclude=_ENVELOPE)
        self._unwritten.append(_Unwritten(conversation, conversation_id, body))
        self._loose[conversation] += 1
        if self._loose[conversation] >= MOST_LOOSE or (isinstance(event, RunEvent) and event.run.ended_at):
            self._due.add(conversation)

    def flush(self) -> None:
        """Write what was appended, as one row: a row costs as much as several events. The end of a unit of work does
        this; a unit that reads events after it appended some does it before."""
        unwritten, self._unwritten = self._unwritten, []
        for conversation, group in groupby(unwritten, attrgetter("conversation")):
            events = list(group)
            first = self._insert(conversation, [event.body for event in events])
            for seq, event in enumerate(events, start=first):
                text = _frame_text(seq, event.conversation_id, event.body)
                self._frames.append(Frame(conversation, seq, text))

    def _insert(self, conversation: int, bodies: Sequence[str]) -> int:
        """Write a row. Returns the `seq` of its first event."""
        text = _LINE.join(bodies)
        last = self._last.get(conversation)
        first = (last_seq(self._sql, conversation) if last is None else last) + 1
        row = (conversation, first, first + len(bodies) - 1, _kind(text), text)
        if self._sql.execute(_INSERT, row).rowcount != 1:
            first = last_seq(self._sql, conversation) + 1  # inside a transaction it stays so
            self._sql.execute(_INSERT, (conversation, first, first + len(bodies) - 1, _kind(text), text))
        self._last[conversation] = first + len(bodies) - 1
        return first


def _kind(text: str) -> str:
    return _WITH_OUTPUTS if _OUTPUT_MARK in text else _PLAIN


def _frame_text(seq: int, conversation_id: str, body: str) -> str:
    return f'{{"seq":{seq},"conversation_id":"{conversation_id}",{body[1:]}'


def compress_events(sql: sqlite3.Connection, conversation: int) -> None:
    """Join and compress the rows of a conversation that are text."""
    newest_first = sql.execute(
        "SELECT seq, body FROM events WHERE conversation = ? ORDER BY seq DESC LIMIT ?", (conversation, _MOST_ROWS)
    )
    rows = list(takewhile(lambda row: isinstance(row[1], str), newest_first))[::-1]
    for joined in _joined(rows):
        text = _LINE.join(body for _, body in joined)
        first, last = joined[0][0], joined[-1][0]
        sql.execute("DELETE FROM events WHERE conversation = ? AND seq BETWEEN ? AND ?", (conversation, first, last))
        row = (conversation, last, _kind(text), pack(text))
        sql.execute("INSERT INTO events VALUES (?, ?, ?, ?)", row)


def _joined(rows: Iterable[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    """Rows, grouped: neither too many events in a group, nor too much text."""
    group: list[tuple[int, str]] = []
    events = characters = 0
    for seq, body in rows:
        count = body.count(_LINE) + 1
        if group and (events + count > _MOST_EVENTS or characters + len(body) > _MOST_CHARACTERS):
            yield group
            group, events, characters = [], 0, 0
        group.append((seq, body))
        events += count
        characters += len(body)
    if group:
        yield group


def events_of(row: EventRow) -> Iterator[tuple[int, str]]:
    """The events of a row, in order, each with its `seq`. Raises `Unreadable`."""
    seq, body = row
    events = unpack(body).split(_LINE)
    return enumerate(events, start=seq - len(events) + 1)


def last_seq(sql: sqlite3.Connection, conversation: int) -> int:
    """0 where there is no event."""
    (last,) = sql.execute("SELECT max(seq) FROM events WHERE conversation = ?", (conversation,)).fetchone()
    return last or 0


def frames_after(sql: sqlite3.Connection, conversation: int, conversation_id: str, seq: int, limit: int) -> list[Frame]:
    """The next events after `seq`, in order: at least `limit` if there are that many, up to the end of a row."""
    frames: list[Frame] = []
    for row in _rows_after(sql, conversation, seq):
        frames.extend(
            Frame(conversation, number, _frame_text(number, conversation_id, body))
            for number, body in events_of(row)
            if number > seq
        )
        if len(frames) >= limit:
            break
    return frames


def _rows_after(sql: sqlite3.Connection, conversation: int, seq: int, condition: str = "true") -> Iterator[EventRow]:
    return sql.execute(
        f"SELECT seq, body FROM events WHERE conversation = ? AND seq > ? AND {condition} ORDER BY seq",
        (conversation, seq),
    )


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
    for row in _rows_after(sql, conversation, after.seq, HAS_OUTPUTS):
        for seq, event in outputs_of(events_of(row)):
            if seq > after.seq:
                outputs.setdefault(event["tool_call_id"], []).append(OutputView.model_validate(event["output"]))
    return outputs


def outputs_of(events: Iterable[tuple[int, str]]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The `tool_output` events among events, parsed, each with its `seq`."""
    for seq, body in events:
        if _OUTPUT_MARK in body:
            event = orjson.loads(body)
            if event["type"] == "tool_output":
                yield seq, event


def _events_of_run(
    sql: sqlite3.Connection, conversation: int, run_id: str, after: Position = START
) -> Iterator[dict[str, Any]]:
    for row in _rows_after(sql, conversation, after.seq):
        for _, body in events_of(row):
            if run_id in body and (event := orjson.loads(body))["run_id"] == run_id:
                yield event


def unfinished_messages(sql: sqlite3.Connection, conversation: int, run_id: str) -> list[str]:
    """The ids of messages whose tokens were shown but that were never completed."""
    begun: dict[str, None] = {}
    for event in _events_of_run(sql, conversation, run_id):
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
    for event in _events_of_run(sql, conversation, run_id, after):
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
    events = _events_of_run(sql, conversation, run_id, after)
    return {event["tool_call_id"] for event in events if event["type"] == "tool_state"}


def unfinished_cards(sql: sqlite3.Connection, conversation: int, run_id: str) -> list[str]:
    """The ids of calls whose cards were shown while the model wrote them, and that the model never completed."""
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


def shown_only_by_events(sql: sqlite3.Connection, conversation: int, run_ids: Set[str], calls: Set[str]) -> int | None:
    """The `seq` of the first event of these runs that shows what neither their messages nor their `calls` do: where the
    turn begins that the model is writing. `None` where there is none; 1 where earlier events alone show something,
    such as the error before a run was tried again. The events from there on can be applied to messages and calls."""
    first: int | None = None
    for seq, event in _events_of_turns(sql, conversation, run_ids):
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


def _events_of_turns(
    sql: sqlite3.Connection, conversation: int, run_ids: Set[str]
) -> Iterator[tuple[int, dict[str, Any]]]:
    for row in _rows_after(sql, conversation, 0):
        for seq, body in events_of(row):
            if any(kind in body for kind in _OF_TURNS) and (event := orjson.loads(body))["run_id"] in run_ids:
                yield seq, event


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
    message. Reads the events backwards as far as that."""
    run_id = _run_of_message(sql, conversation, message_id) or last_run(sql, conversation)
    prompt = _prompt_id(sql, conversation, run_id) if run_id is not None else None
    if prompt is None:
        return 0
    newest_first = sql.execute("SELECT seq, body FROM events WHERE conversation = ? ORDER BY seq DESC", (conversation,))
    for row in newest_first:
        for seq, body in events_of(row):
            if prompt in body and (event := orjson.loads(body))["type"] == "message" and event["message_id"] == prompt:
                return seq - 1
    return 0


def _run_of_message(sql: sqlite3.Connection, conversation: int, message_id: str | None) -> str | None:
    row = sql.execute(
        "SELECT run_id FROM messages WHERE conversation = ? AND message_id = ?", (conversation, message_id)
    ).fetchone()
    return row[0] if row is not None else None


def _prompt_id(sql: sqlite3.Connection, conversation: int, run_id: str) -> str | None:
    """The id of a run's first message of the user."""
    rows = sql.execute(
        f"SELECT {MESSAGE} WHERE messages.conversation = ? AND messages.run_id = ? ORDER BY position",
        (conversation, run_id),
    )
    return next((found for found, _, *stored in rows if message_body(*stored)["role"] == "user"), None)


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
