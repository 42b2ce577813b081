"""Blocks: many events in one row.

An event is a row of its own while its run goes on. When the run ends, or many have gathered, the rows become blocks:
the same texts, compressed together and against the messages that the log has anyway. So an answer that was streamed in
a hundred pieces, and said again at its end, is stored once, and every frame is still there, byte by byte.

A block's row has the `seq` of its last event, so that what follows a place in the conversation is found as before.
"""

import json
import sqlite3
import struct
from collections.abc import Iterator, Sequence
from itertools import pairwise

from agent_kernel.log.bodies import KNOWN_BYTES, pack_against, unpack

LOOSE = 256
"""So many events that are rows of their own are folded before their run ends."""
_MOST_EVENTS = 256
_MOST_CHARACTERS = 256_000
_MOST_FOLDED = 4_096
"""In one transaction: a log of an earlier version has never folded any."""

QUIET, WITH_OUTPUTS = "block", "block with outputs"
"""Kinds. Outputs are looked for on their own."""
OUTPUT_KINDS = ("tool_output", WITH_OUTPUTS)
_OUTPUT_MARK = '"type":"tool_output"'
_PLACES = struct.Struct(">II")
"""The positions of the first and the last message that a block was packed against; 1 and 0 where there were none."""

Row = tuple[int, str, str | bytes]
"""`seq`, kind and body of a row of `events`."""


def fold(sql: sqlite3.Connection, conversation: int) -> None:
    """Make blocks of a conversation's loose events, the oldest first."""
    loose, told = _loose_rows(sql, conversation)
    if len(loose) < 2:
        return
    (last,) = sql.execute("SELECT max(position) FROM messages WHERE conversation = ?", (conversation,)).fetchone()
    places = (told + 1, max(told, last or 0))
    known = _known(sql, conversation, places)
    for first, end in pairwise(_cuts(loose)):
        seqs = [seq for seq, _ in loose[first:end]]
        text = "\n".join(body for _, body in loose[first:end])
        kind = WITH_OUTPUTS if _OUTPUT_MARK in text else QUIET
        sql.execute(
            "DELETE FROM events WHERE conversation = ? AND seq BETWEEN ? AND ?", (conversation, seqs[0], seqs[-1])
        )
        packed = _PLACES.pack(*places) + pack_against(text, known)
        sql.execute("INSERT INTO events VALUES (?, ?, ?, ?)", (conversation, seqs[-1], kind, packed))


def bodies(sql: sqlite3.Connection, conversation: int, row: Row) -> Iterator[tuple[int, str]]:
    """The events of a row, one or many, with their `seq`."""
    seq, kind, body = row
    if kind not in (QUIET, WITH_OUTPUTS):
        yield seq, unpack(body)
        return
    assert isinstance(body, bytes)
    places = _PLACES.unpack_from(body)
    texts = unpack(body[_PLACES.size :], _known(sql, conversation, places)).split("\n")
    yield from enumerate(texts, start=seq - len(texts) + 1)


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
    return [(seq, unpack(body)) for seq, body in rows[-_MOST_FOLDED:][::-1]], told


def _cuts(loose: Sequence[tuple[int, str]]) -> list[int]:
    """Where blocks begin and end: neither too many events in one, nor too much text."""
    cuts, characters = [0], 0
    for index, (_, body) in enumerate(loose):
        if index - cuts[-1] == _MOST_EVENTS or (index > cuts[-1] and characters + len(body) > _MOST_CHARACTERS):
            cuts.append(index)
            characters = 0
        characters += len(body)
    return [*cuts, len(loose)]


def _known(sql: sqlite3.Connection, conversation: int, places: tuple[int, ...]) -> bytes:
    """The texts of these messages, as far back as the compressor looks. They never change."""
    texts: list[bytes] = []
    wanted = KNOWN_BYTES
    newest_first = sql.execute(
        "SELECT body, result FROM messages LEFT JOIN tool_calls ON tool_calls.number = body "
        "WHERE messages.conversation = ? AND position BETWEEN ? AND ? ORDER BY position DESC",
        (conversation, *places),
    )
    for body, result in newest_first:
        # A tool's result stands in events as JSON has it.
        text = json.dumps(unpack(result), ensure_ascii=False) if isinstance(body, int) else unpack(body)
        texts.append(text.encode())
        wanted -= len(texts[-1])
        if wanted <= 0:
            break
    return b"".join(reversed(texts))
