"""Packs texts that may be long for the log: compressed with zlib, each by itself, if that makes them smaller."""

import zlib

from agent_kernel.log.file_faults import Unreadable


def pack(text: str) -> str | bytes:
    """A text as it is stored."""
    plain = text.encode()
    packed = zlib.compress(plain)
    return packed if len(packed) < len(plain) else text


def unpack(stored: str | bytes) -> str:
    """A text as it was. Raises `Unreadable`."""
    if isinstance(stored, str):
        return stored
    try:
        return zlib.decompress(stored).decode()
    except (zlib.error, UnicodeDecodeError) as error:
        raise Unreadable(f"it was changed or cut off: {error}") from error
