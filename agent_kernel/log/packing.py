"""Packs texts that may be long for the log: compressed with zlib, each by itself, if that makes them smaller."""

import zlib

from agent_kernel.log.file_faults import Unreadable

_SHORTEST = 100
"""Characters. What is shorter hardly gets smaller."""
_USUAL = (
    b'"tool_calls":[],"role":"assistant","content":"","reason":null,"edited":false,"by":"policy","decided_by":null,'
    b'"tool_call_id":"call_","tool_name":"run_python","tool_input":"{}","approved":true,"approval_id":"apr_",'
    b'"state":"success","status":"success","duration_ms":,"truncated":false,"output_file":null,"undo":null,'
    b'"cached_at":null,"waiting_behind":null,"preview":null,"message_id":"msg_","finish_reason":"stop","error":null,'
    b'{"timestamp":"2026-01-01T00:00:00.000Z","run":{"run_id":"run_","conversation_id":"conv_","prompt":"",'
    b'"status":"running","model":"","effort":null,"continues":null,"cell_id":null,"lean":false,"recorded":false,'
    b'"client":null,"policy":{"mode":"ask","rules":[],"cap":null,"folder_cap":null,"limited_by":null,"notes":[]},'
    b'"usage":{"input_tokens":0,"output_tokens":0,"total_tokens":0,"tool_calls":0,"steps":0,"cached_tokens":0,'
    b'"cache_write_tokens":0,"reasoning_tokens":0,"cost":null,"cost_is_partial":false,"cost_is_reported":false,'
    b'"estimated":false,"seconds":0.0},"budget":{"tokens":null,"usd":null,"tool_calls":null,"seconds":null,'
    b'"steps":null},"started_at":"","ended_at":null,"error":null,"finish_reason":null,"paused":null,"delay":null,'
    b'"raises":[],"conversation_budget":null,"notices":[],"mentions":[],"instructions":[]}'
)
"""What short texts are like, so that those take half the room. A change of it needs another schema."""


def pack(text: str) -> str | bytes:
    """A text as it is stored."""
    if len(text) < _SHORTEST:
        return text
    plain = text.encode()
    packing = zlib.compressobj(zdict=_USUAL)
    packed = packing.compress(plain) + packing.flush()
    return packed if len(packed) < len(plain) else text


def unpack(stored: str | bytes) -> str:
    """A text as it was. Raises `Unreadable`."""
    if isinstance(stored, str):
        return stored
    unpacking = zlib.decompressobj(zdict=_USUAL)
    try:
        plain = unpacking.decompress(stored) + unpacking.flush()
        if not unpacking.eof:
            raise Unreadable("it was cut off")
        return plain.decode()
    except (zlib.error, UnicodeDecodeError) as error:
        raise Unreadable(f"it was changed or cut off: {error}") from error
