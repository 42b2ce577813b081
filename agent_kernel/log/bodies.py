"""How the log stores texts: compressed with a dictionary of the protocol's words, because most of a small body is field
names, which plain compression does not make smaller.

The first byte says how. 1: with the first dictionary (logs of schema 1). 2: with the second. 3: with the second and
with texts that the log holds elsewhere, so that what they have in common is stored once; whoever reads it brings the
same texts, and a check sum shows if they are others. A body that does not get smaller is stored as text.
"""

import zlib
from functools import partial

from agent_kernel.log.dictionaries import FIRST, SECOND

_WINDOW = 32_768
KNOWN_BYTES = _WINDOW - len(SECOND)
"""How much of the known texts is of use: their end."""

# A compressor of the usual size takes longer to make than a small body takes to compress.
_small = partial(zlib.compressobj, level=6, wbits=-15, memLevel=6, zdict=SECOND)
_first = partial(zlib.decompressobj, wbits=-15, zdict=FIRST)
_second = partial(zlib.decompressobj, wbits=-15, zdict=SECOND)


class Unreadable(ValueError):
    """A body that another version wrote, that was changed, or that was packed against other texts."""


def pack(text: str) -> str | bytes:
    """A body as it is stored."""
    plain = text.encode()
    compressor = _small()
    packed = b"\x02" + compressor.compress(plain) + compressor.flush()
    return packed if len(packed) < len(plain) else text


def pack_against(text: str, known: bytes) -> bytes:
    """A body of which much is in `known` already. Only `unpack` with the same `known` can read it."""
    plain = text.encode()
    size = 6 if len(plain) + len(known) < _WINDOW else 8
    compressor = zlib.compressobj(level=6, memLevel=size, zdict=known[-KNOWN_BYTES:] + SECOND)
    return b"\x03" + compressor.compress(plain) + compressor.flush()


def unpack(stored: str | bytes, known: bytes = b"") -> str:
    """A body as it was. Raises `Unreadable`."""
    if isinstance(stored, str):
        return stored
    match stored[:1]:
        case b"\x02":
            decompressor = _second()
        case b"\x01":
            decompressor = _first()
        case b"\x03":
            decompressor = zlib.decompressobj(zdict=known[-KNOWN_BYTES:] + SECOND)
        case _:
            raise Unreadable("This body was written by another version of Agent Kernel.")
    try:
        plain = decompressor.decompress(stored[1:])
    except zlib.error as error:
        raise Unreadable(f"This body was changed, or packed against other texts: {error}.") from error
    if not decompressor.eof:
        raise Unreadable("This body is cut off.")
    try:
        return plain.decode()
    except UnicodeDecodeError as error:
        raise Unreadable(f"This body was changed: {error}.") from error


def needs_known(stored: str | bytes) -> bool:
    """Whether a body can be read only together with what it was packed against."""
    return not isinstance(stored, str) and stored[:1] == b"\x03"
