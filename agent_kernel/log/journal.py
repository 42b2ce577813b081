"""Events and messages. Each is written once; `seq` is given out here, at the append."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from agent_kernel.log.bodies import pack, unpack
from agent_kernel.protocol.events import LoggedEvent
from agent_kernel.protocol.views import MessageView, OutputView

_INSERT = "INSERT INTO events VALUES (?, ?, ?, ?)"


@dataclass(frozen=True, slots=True)
class Frame:
    """A committed event, ready to be sent."""

    conversation: int
    seq: int
    text: str


class Journal:
    """Appends events and remembers the last `seq` of each conversation. Used on the log's thread only."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._sql = connection
        self._last: dict[int, int] = {}
        self._frames: list[Frame] = []

    def begin(self) -> list[Frame]:
        """Start to collect the frames of a transaction."""
        self._frames = []
        return self._frames

    def forget(self, frames: list[Frame]) -> None:
        """The transaction was rolled back: its numbers were never given out."""
        for frame in frames:
            self._last.pop(frame.conversation, None)

    def append(self, conversation: int, conversation_id: str, event: LoggedEvent) -> int:
        """Append an event and return its `seq`. The envelope's `seq` and `conversation_id` are not stored in the
        body: they are the row's key, and are put back when it is read."""
        body = event.model_dump_json(exclude={"seq", "conversation_id"})
        seq = self._insert(conversation, event.type, pack(body))
        self._frames.append(Frame(conversation, seq, _frame_text(seq, conversation_id, body)))
        return seq

    def _insert(self, conversation: int, kind: str, body: str | bytes) -> int:
        last = self._last.get(conversation)
        seq = (last_seq(self._sql, conversation) if last is None else last) + 1
        try:
            self._sql.execute(_INSERT, (conversation, seq, kind, body))
        except sqlite3.IntegrityError:
            # Another server on the same log wrote to this conversation; inside a transaction its last `seq` stays so.
            seq = last_seq(self._sql, conversation) + 1
            self._sql.execute(_INSERT, (conversation, seq, kind, body))
        self._last[conversation] = seq
        return seq


def _frame_text(seq: int, conversation_id: str, body: str) -> str:
    return f'{{"seq":{seq},"conversation_id":"{conversation_id}",{body[1:]}'


def last_seq(sql: sqlite3.Connection, conversation: int) -> int:
    (last,) = sql.execute("SELECT max(seq) FROM events WHERE conversation = ?", (conversation,)).fetchone()
    return last or 0


def frames_after(sql: sqlite3.Connection, conversation: int, conversation_id: str, seq: int, limit: int) -> list[Frame]:
    """The next `limit` events after `seq`, in order."""
    rows = sql.execute(
        "SELECT seq, body FROM events WHERE conversation = ? AND seq > ? ORDER BY seq LIMIT ?",
        (conversation, seq, limit),
    )
    return [Frame(conversation, number, _frame_text(number, conversation_id, unpack(body))) for number, body in rows]


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
        "SELECT body FROM events WHERE conversation = ? AND seq > ? AND kind = 'tool_output' ORDER BY seq",
        (conversation, after.seq),
    )
    for (body,) in rows:
        event = orjson.loads(unpack(body))
        outputs.setdefault(event["tool_call_id"], []).append(OutputView.model_validate(event["output"]))
    return outputs


def unfinished_messages(sql: sqlite3.Connection, conversation: int, run_id: str) -> list[str]:
    """Messages of a run whose tokens were shown but that never came to an end."""
    begun: dict[str, None] = {}
    rows = sql.execute(
        "SELECT kind, body FROM events WHERE conversation = ? AND kind IN ('token', 'reasoning', 'message') "
        "ORDER BY seq",
        (conversation,),
    )
    for kind, body in rows:
        event = orjson.loads(unpack(body))
        if event["run_id"] != run_id:
            continue
        if kind == "message":
            begun.pop(event["message_id"], None)
        else:
            begun[event["message_id"]] = None
    return list(begun)


def unfinished_cards(sql: sqlite3.Connection, conversation: int, run_id: str) -> list[str]:
    """Calls of a run whose cards were shown while the model wrote them, and that it never finished."""
    shown: dict[str, None] = {}
    rows = sql.execute(
        "SELECT kind, body FROM events WHERE conversation = ? AND kind IN ('tool_state', 'tool_complete') ORDER BY seq",
        (conversation,),
    )
    for kind, body in rows:
        event = orjson.loads(unpack(body))
        if event["run_id"] != run_id:
            continue
        if kind == "tool_state":
            shown[event["tool_call_id"]] = None
        else:
            shown.pop(event["tool_call_id"], None)
    known = sql.execute("SELECT tool_call_id FROM tool_calls WHERE conversation = ?", (conversation,))
    for (tool_call_id,) in known:
        shown.pop(tool_call_id, None)
    return list(shown)


def append_message(
    sql: sqlite3.Connection, conversation: int, message_id: str, run_id: str, body: dict[str, Any]
) -> None:
    """Append a message in the log's form: the wire message, and beside it what only a person sees."""
    sql.execute(
        "INSERT INTO messages SELECT ?, coalesce(max(position), 0) + 1, ?, ?, ? FROM messages WHERE conversation = ?",
        (conversation, message_id, run_id, pack(orjson.dumps(body).decode()), conversation),
    )


def read_messages(
    sql: sqlite3.Connection, conversation: int, after: Mark = START
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(message_id, run_id, body) of every message, in order."""
    rows = sql.execute(
        "SELECT message_id, run_id, body FROM messages WHERE conversation = ? AND position > ? ORDER BY position",
        (conversation, after.position),
    )
    for message_id, run_id, body in rows:
        yield message_id, run_id, orjson.loads(unpack(body))


def has_prompt(sql: sqlite3.Connection, conversation: int, run_id: str) -> bool:
    """Whether the prompt of a run has been written."""
    row = sql.execute(
        "SELECT 1 FROM messages WHERE conversation = ? AND run_id = ? LIMIT 1", (conversation, run_id)
    ).fetchone()
    return row is not None


def message_views(sql: sqlite3.Connection, conversation: int, after: Mark = START) -> list[MessageView]:
    return [
        MessageView(
            message_id=message_id,
            run_id=run_id,
            role=body["role"],
            content=body.get("content") or "",
            tool_calls=[call["id"] for call in body.get("tool_calls", ())],
            tool_call_id=body.get("tool_call_id"),
            reasoning=body.get("reasoning", ""),
        )
        for message_id, run_id, body in read_messages(sql, conversation, after)
    ]
