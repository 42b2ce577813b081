"""Reads texts as schemas 1 to 12 of the log packed them. Nothing is written in these forms any more.

Those versions compressed texts with a dictionary of the protocol's words, and some against other texts: a block of
events against the conversation's messages, a preview against the call's arguments, an audit entry against the one
before it. Such rows stay as they are: to rewrite them would need all of this too, and a server with a large log would
take minutes to start.

The first byte of a packed text says how: 1 with the first dictionary (schema 1), 2 with the second, 3 with the second
and texts from other rows. A text that packing did not make smaller is stored as it is.
"""

import json
import sqlite3
import struct
import zlib
from typing import TypeGuard

from agent_kernel.log.faults import Unreadable

_WINDOW = 32_768
"""Bytes: as far as the compressor looks back."""
_MESSAGES = struct.Struct(">II")
"""The beginning of a block of events: the positions of the first and the last message that it was packed against."""

_FIRST = (
    b'"details":{},"error":null,"expires_at":null,"scopes":["once","conversation","project","user"],"rules":[{"text":"'
    b'allow run_python where digest is ","label":"This exact call","note":"same arguments"}],"preview":{"kind":"code",'
    b'"language":"python","text":"import pandas as pd\\n"},"warnings":[{"title":"Writes files:","detail":""}],'
    b'"output":{"kind":"display","name":null,"text":"","data":{"text/html":"","text/plain":"","image/png":"'
    b'"},"display_id":null}}"output":{"kind":"stream","name":"stdout","text":"","data":{},"display_id":null}},"index":0,'
    b'"approved":true,"reason":null,"edited":false,"by":"user","decided_by":null}"by":"policy","approval_id":"apr_'
    b'","tool_result":"(run_python completed with no output)","status":"success","duration_ms":1,"truncated":false,'
    b'"output_file":null,"state":"success","reason":null}"digest":"","tool_input":"{\\"code\\":\\"print(","state":'
    b'"proposed"}"tool_name":"inspect_variables","tool_call_id":"call_","tool_name":"run_python","tool_call_id":"call_'
    b'{"role":"user","content":"","environment":"Notebook: "}{"role":"tool","tool_call_id":"call_","content":"'
    b'{"role":"assistant","content":"","tool_calls":[{"id":"call_","type":"function","function":{"name":"run_python",'
    b'"arguments":"{\\"code\\":\\""}}]}"run":{"run_id":"run_","conversation_id":"conv_","prompt":"","status":"running",'
    b'"model":"gpt-5.2","recorded":false,"policy":{"mode":"ask","rules":[]},"usage":{"input_tokens":0,"output_tokens":0,'
    b'"total_tokens":0,"tool_calls":0,"steps":0},"budget":{"tokens":null,"tool_calls":100,"seconds":null,"steps":100},'
    b'"started_at":"2026-","ended_at":null,"error":null}}"message_id":"msg_","finish_reason":"stop","usage":{'
    b'"input_tokens":0,"output_tokens":0,"total_tokens":0,"tool_calls":1,"steps":2}{"run_id":"run_","timestamp":"2026-'
    b'Z","type":"run","run":{"type":"tool_state","type":"approval_response","type":"tool_start","type":"tool_output",'
    b'"type":"tool_complete","type":"complete","type":"message","message_id":"msg_","role":"assistant","content":"'
    b'{"run_id":"run_","timestamp":"2026-Z","type":"token","message_id":"msg_","content":"'
)

_SECOND = (
    b'{"role":"system","content":"{"role":"user","content":"","environment":""}","reasoning":"'
    b'"action":"saved","rule":"allow ","rule_id":"rule_","kind":"rule","kind":"undo","decision":"denied","reason":"'
    b'"state":"cancelled","state":"error","state":"unknown","by":"user","decided_by":"","scope":"conversation"'
    b'{"approval_id":"apr_","arguments":"{\\"code\\":\\"","at":"2026-","by":"policy","conversation_id":"conv_'
    b'","decided_by":null,"decision":"approved","digest":"","edited":false,"kind":"decision","number":1,"previous":"'
    b'","reason":null,"run_id":"run_","scope":"once","tool_call_id":"call_","tool_name":"run_python","version":1}'
    b'{"approval_id":"apr_","arguments":"{}","at":"2026-","by":"policy","conversation_id":"conv_","decided_by":null,'
    b'"digest":"","duration_ms":0,"edited":false,"kind":"outcome","number":2,"previous":"","reason":null,"run_id":"run_'
    b'","started_at":"2026-","state":"success","tool_call_id":"call_","tool_name":"run_python","version":1}'
) + _FIRST

_MOST_KNOWN = _WINDOW - len(_SECOND)


def unpack(stored: str | bytes, known: bytes = b"") -> str:
    """A text as it was. `known` is the text that it was packed against. Raises `Unreadable`."""
    if isinstance(stored, str):
        return stored
    match stored[:1]:
        case b"\x01":
            decompressor = zlib.decompressobj(wbits=-15, zdict=_FIRST)
        case b"\x02":
            decompressor = zlib.decompressobj(wbits=-15, zdict=_SECOND)
        case b"\x03":
            decompressor = zlib.decompressobj(zdict=known[-_MOST_KNOWN:] + _SECOND)
        case _:
            raise Unreadable("another version of Agent Kernel wrote it")
    try:
        plain = decompressor.decompress(stored[1:]).decode()
    except (zlib.error, UnicodeDecodeError) as error:
        raise Unreadable(f"it was changed, or packed against another text: {error}") from error
    if not decompressor.eof:
        raise Unreadable("it is cut off")
    return plain


def is_block(stored: str | bytes) -> TypeGuard[bytes]:
    """Whether a row of `events` is a block: packed against messages."""
    return isinstance(stored, bytes) and stored[:1] == b"\0"


def unpack_block(sql: sqlite3.Connection, conversation: int, stored: bytes) -> str:
    """The events of a block, one a line. Raises `Unreadable`."""
    if len(stored) < _MESSAGES.size:
        raise Unreadable("it is cut off")
    return unpack(stored[_MESSAGES.size :], _messages(sql, conversation, *_MESSAGES.unpack_from(stored)))


def _messages(sql: sqlite3.Connection, conversation: int, first: int, last: int) -> bytes:
    """The end of the messages from one position to another, as long as it can matter."""
    known: list[bytes] = []
    wanted = _MOST_KNOWN
    rows = sql.execute(
        "SELECT body, result FROM messages LEFT JOIN tool_calls ON tool_calls.number = body "
        "WHERE messages.conversation = ? AND position BETWEEN ? AND ? ORDER BY position DESC",
        (conversation, first, last),
    )
    for body, result in rows:
        # A tool message is stored as the number of its call. Blocks were packed against its text as JSON.
        text = json.dumps(unpack(result), ensure_ascii=False) if isinstance(body, int) else unpack(body)
        known.append(text.encode())
        wanted -= len(known[-1])
        if wanted <= 0:
            break
    return b"".join(reversed(known))


def unpack_entry(sql: sqlite3.Connection, number: int, stored: str | bytes) -> str:
    """An audit entry: packed against the hash of the one before it, and if its number is even, against that one's text
    as well. Raises `Unreadable`."""
    if isinstance(stored, str):
        return stored
    before = sql.execute("SELECT entry, hash FROM audit WHERE number = ?", (number - 1,)).fetchone()
    entry, hashed = before or ("", "0" * 64)
    text = unpack_entry(sql, number - 1, entry) if number % 2 == 0 else ""
    known = text + (hashed.hex() if isinstance(hashed, bytes) else hashed)
    return unpack(stored, known.encode())
