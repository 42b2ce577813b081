"""Packs texts that may be long for the log: compressed with zlib, each by itself, if that makes them smaller."""

import zlib

from agent_kernel.log import old_packing
from agent_kernel.log.faults import Unreadable

_SHORTEST = 200
"""Characters. What is shorter hardly gets smaller."""
_ZLIB = b"\x78"
"""The first byte of what `zlib.compress` makes, and of nothing that earlier versions stored."""


def pack(text: str) -> str | bytes:
    """A text as it is stored."""
    if len(text) < _SHORTEST:
        return text
    plain = text.encode()
    packed = zlib.compress(plain)
    return packed if len(packed) < len(plain) else text


def unpack(stored: str | bytes, known: bytes = b"") -> str:
    """A text as it was. `known` is the text that an earlier version packed it against. Raises `Unreadable`."""
    if isinstance(stored, str):
        return stored
    if stored[:1] != _ZLIB:
        return old_packing.unpack(stored, known)
    try:
        return zlib.decompress(stored).decode()
    except (zlib.error, UnicodeDecodeError) as error:
        raise Unreadable(f"it was changed or cut off: {error}") from error
