"""Bodies of answers as they come, unpacked in small pieces: a few kilobytes may stand for gigabytes."""

import asyncio
import zlib
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from agent_kernel.models.faults import Fault

if TYPE_CHECKING:
    import httpx2

ACCEPTED = "gzip, deflate"
"""What requests say they take. Of other packings Python's decoders can't be told where to stop."""
PIECE_BYTES = 65_536
_EITHER = zlib.MAX_WBITS | 32
"""Of the two headers, whichever is there."""


async def unpacked(response: "httpx2.Response") -> AsyncGenerator[bytes]:
    """The body in pieces, those of a packed one of `PIECE_BYTES` at most. Raises `Fault`."""
    packing = response.headers.get("content-encoding", "").strip().lower()
    if packing in ("", "identity"):
        async for piece in response.aiter_raw():
            yield piece
        return
    if packing not in ("gzip", "x-gzip", "deflate"):
        raise Fault("answer", f"its answer is packed as {packing[:40]!r}, which was not asked for")
    unpacker = zlib.decompressobj(_EITHER)
    async for packed in response.aiter_raw():
        while packed:
            try:
                piece = unpacker.decompress(packed, PIECE_BYTES)
            except zlib.error:
                raise Fault("answer", f"its answer can't be unpacked ({packing})", retry=True) from None
            if piece:
                yield piece
            packed = unpacker.unconsumed_tail
            if unpacker.eof:
                packed, unpacker = unpacker.unused_data, zlib.decompressobj(_EITHER)
            elif len(piece) == PIECE_BYTES:
                await asyncio.sleep(0)  # there may be thousands of them without a wait for the network


async def read_whole(response: "httpx2.Response", most_bytes: int) -> bytes:
    """The whole body. Raises `Fault` for one that is longer."""
    pieces: list[bytes] = []
    size = 0
    async for piece in unpacked(response):
        size += len(piece)
        if size > most_bytes:
            raise Fault("answer", f"its answer is longer than {most_bytes:,} bytes")
        pieces.append(piece)
    return b"".join(pieces)
