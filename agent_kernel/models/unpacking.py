"""Decompresses the bodies of answers in small pieces, because a few kilobytes may expand to gigabytes."""

import asyncio
import zlib
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from agent_kernel.models.service_faults import Fault

if TYPE_CHECKING:
    import httpx2

ACCEPTED = "gzip, deflate"
"""The `Accept-Encoding` of requests. Python's decoders for other encodings can't limit their output."""
PIECE_BYTES = 65_536
_EITHER = zlib.MAX_WBITS | 32
"""Makes zlib accept gzip and zlib headers."""


async def unpacked(response: "httpx2.Response") -> AsyncGenerator[bytes]:
    """The body in pieces; those of a compressed one have at most `PIECE_BYTES`. Raises `Fault`."""
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
                await asyncio.sleep(
                    0
                )  # lets other tasks run: thousands of pieces may come without waiting for the network


async def read_whole(response: "httpx2.Response", most_bytes: int) -> bytes:
    """The whole body. Raises `Fault` if it has more than `most_bytes`."""
    pieces: list[bytes] = []
    size = 0
    async for piece in unpacked(response):
        size += len(piece)
        if size > most_bytes:
            raise Fault("answer", f"its answer is longer than {most_bytes:,} bytes")
        pieces.append(piece)
    return b"".join(pieces)
