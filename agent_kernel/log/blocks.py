"""Many events in one row.

The events of one unit of work are one row, as they are, while their run goes on. When the run ends, or many have
gathered, the rows become blocks: the same texts, compressed together and against the messages that the log has anyway.
So an answer that was streamed in a hundred pieces, and said again at its end, is stored once, and every frame is still
there, byte by byte.

A row has the `seq` of its last event, so that what follows a place in the conversation is found by it.
"""

import json
import sqlite3
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from agent_kernel.log.bodies import KNOWN_BYTES, pack_against, unpack

LOOSE = 256
"""So many events that are in no block are folded before their run ends."""
_MOST_EVENTS = 256
_MOST_CHARACTERS = 256_000
_MOST_FOLDED = 4_096
"""Rows, in one transaction: a log of an earlier version has never folded any."""

QUIET, WITH_OUTPUTS = "block", "block with outputs"
"""Kinds of blocks. Outputs are looked for on their own."""
SEVERAL, SEVERAL_WITH_OUTPUTS = "events", "events with outputs"
"""Kinds of rows with several events that are no block yet. A row of one has that event's type."""
OUTPUT_KINDS = ("tool_output", WITH_OUTPUTS, SEVERAL_WITH_OUTPUTS)
IS_OUTPUT = f"kind IN {OUTPUT_KINDS}"
"""For SQL: whether a row may hold outputs."""
OUTPUT_MARK = '"type":"tool_output"'
"""In the text of every such event, and of few others."""
_PLACES = struct.Struct(">II")
"""The positions of the first and the last message that a block was packed against; 1 and 0 where there were none."""

_LINE = "\n"
"""Between events. In JSON it stands for itself nowhere."""

Row = tuple[int, str, str | bytes]
"""`seq`, kind and body of a row of `events`."""
Text = tuple[bool, str]
"""What a message says: a call's result, or the message in the log's form."""


def loose_row(events: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """The kind and the body of a row of events, of their types and texts."""
    if len(events) == 1:
        return events[0]
    kind = SEVERAL_WITH_OUTPUTS if any(kind == "tool_output" for kind, _ in events) else SEVERAL
    return kind, _LINE.join(text for _, text in events)


def fold(sql: sqlite3.Connection, conversation: int) -> None:
    """Make blocks of a conversation's loose events, the oldest first."""
    loose, told = _loose_rows(sql, conversation)
    if len(loose) < 2:
        return
    (last,) = sql.execute("SELECT max(position) FROM messages WHERE conversation = ?", (conversation,)).fetchone()
    places = (told + 1, max(told, last or 0))
    known = _known(_texts(sql, conversation, *places))
    for first, end in pairwise(_cuts(loose)):
        seqs = [seq for seq, _ in loose[first:end]]
        text = _LINE.join(body for _, body in loose[first:end])
        kind = WITH_OUTPUTS if OUTPUT_MARK in text else QUIET
        sql.execute(
            "DELETE FROM events WHERE conversation = ? AND seq BETWEEN ? AND ?", (conversation, seqs[0], seqs[-1])
        )
        packed = _PLACES.pack(*places) + pack_against(text, known)
        sql.execute("INSERT INTO events VALUES (?, ?, ?, ?)", (conversation, seqs[-1], kind, packed))


def bodies(
    sql: sqlite3.Connection, conversation: int, row: Row, texts: Mapping[int, Text] | None = None
) -> Iterator[tuple[int, str]]:
    """The events of a row, one or many, with their `seq`. `texts` are those of the conversation's messages, by
    position, where somebody has read them all already."""
    seq, kind, body = row
    if kind not in (QUIET, WITH_OUTPUTS):
        yield from _numbered(unpack(body), seq)
        return
    assert isinstance(body, bytes)
    first, last = _PLACES.unpack_from(body)
    told = (
        _texts(sql, conversation, first, last) if texts is None else map(texts.__getitem__, range(last, first - 1, -1))
    )
    yield from _numbered(unpack(body[_PLACES.size :], _known(told)), seq)


def _numbered(text: str, last: int) -> Iterator[tuple[int, str]]:
    """The events of a text, the last of which has the number `last`."""
    events = text.split(_LINE)
    return enumerate(events, start=last - len(events) + 1)


def _loose_rows(sql: sqlite3.Connection, conversation: int) -> tuple[list[tuple[int, str]], int]:
    """The events after the last block, and the last message that it was packed against."""
    rows: list[tuple[int, str | bytes]] = []
    told = 0
    newest_first = sql.execute(
        "SELECT seq, kind, body FROM events WHERE conversation = ? ORDER BY seq DESC", (conversation,)
    )
    for seq, kind, body in newest_first:
        if kind in (QUIET, WITH_OUTPUTS):
            told = _PLACES.unpack_from(body)[1]
            break
        rows.append((seq, body))
    oldest = rows[-_MOST_FOLDED:][::-1]
    return [event for seq, body in oldest for event in _numbered(unpack(body), seq)], told


def _cuts(loose: Sequence[tuple[int, str]]) -> list[int]:
    """Where blocks begin and end: neither too many events in one, nor too much text."""
    cuts, characters = [0], 0
    for index, (_, body) in enumerate(loose):
        if index - cuts[-1] == _MOST_EVENTS or (index > cuts[-1] and characters + len(body) > _MOST_CHARACTERS):
            cuts.append(index)
            characters = 0
        characters += len(body)
    return [*cuts, len(loose)]


def _texts(sql: sqlite3.Connection, conversation: int, first: int, last: int) -> Iterator[Text]:
    """Those of the messages from one position to another, the last first."""
    rows = sql.execute(
        "SELECT body, result FROM messages LEFT JOIN tool_calls ON tool_calls.number = body "
        "WHERE messages.conversation = ? AND position BETWEEN ? AND ? ORDER BY position DESC",
        (conversation, first, last),
    )
    for body, result in rows:
        yield (True, unpack(result)) if isinstance(body, int) else (False, unpack(body))


def _known(texts: Iterable[Text]) -> bytes:
    """What a block is packed against: messages, the last first, as far back as the compressor looks. They never
    change."""
    known: list[bytes] = []
    wanted = KNOWN_BYTES
    for is_result, text in texts:
        # A tool's result stands in events as JSON has it.
        known.append((json.dumps(text, ensure_ascii=False) if is_result else text).encode())
        wanted -= len(known[-1])
        if wanted <= 0:
            break
    return b"".join(reversed(known))
