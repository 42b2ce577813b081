"""How the log stores the bodies of events and messages: JSON, compressed with a dictionary of the protocol's words.

Most of a small event is field names, so that a preset dictionary saves two thirds of it where plain compression saves
nothing. A body that does not get smaller is stored as text. The dictionary is part of the file format: a changed one is
a new one, with a first byte of its own.
"""

import zlib
from functools import partial

_FIRST = b"\x01"
_DICTIONARY = (
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
_compressor = partial(zlib.compressobj, level=6, wbits=-15, zdict=_DICTIONARY)
_decompressor = partial(zlib.decompressobj, wbits=-15, zdict=_DICTIONARY)


def pack(text: str) -> str | bytes:
    """A body as it is stored."""
    plain = text.encode()
    compressor = _compressor()
    packed = _FIRST + compressor.compress(plain) + compressor.flush()
    return packed if len(packed) < len(plain) else text


def unpack(stored: str | bytes) -> str:
    """A body as it was. Raises `ValueError` for one that another version wrote."""
    if isinstance(stored, str):
        return stored
    if stored[:1] != _FIRST:
        raise ValueError("This body was written by another version of Agent Kernel.")
    return _decompressor().decompress(stored[1:]).decode()
