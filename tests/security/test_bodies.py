"""Bodies that are refused are refused by their headers: they are neither waited for nor kept."""

import asyncio
import json
import tracemalloc
from typing import Any

import httpx
import pytest

from agent_kernel_server.base_handler import SHORT_BYTES
from tests.server.serving import Server

MEGABYTE = 1_048_576
MOST_READ_SECONDS = 60.0


async def answer_to(port: int, path: str, headers: dict[str, str], *body: bytes) -> tuple[int, dict[str, Any]]:
    """The status and the JSON of an answer that comes before the body is complete."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        lines = [f"POST {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", *(f"{k}: {v}" for k, v in headers.items()), "", ""]
        writer.write("\r\n".join(lines).encode())
        for piece in body:
            writer.write(piece)
            await writer.drain()
        async with asyncio.timeout(MOST_READ_SECONDS):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = int(next(line for line in head.lower().splitlines() if "content-length" in line).split(":")[1])
            return int(head.split()[1]), json.loads(await reader.readexactly(length))
    finally:
        writer.close()


@pytest.mark.parametrize("route", ["api/conversations", "api/approvals/x", "api/nothing", "mcp"])
async def test_a_body_that_is_a_strangers_or_too_large_is_refused_before_it_is_sent(server: Server, route: str) -> None:
    path = f"{server.app.base_url}agent-kernel/{route}"
    long, unsaid = {"Content-Length": str(400 * MEGABYTE)}, {"Transfer-Encoding": "chunked"}
    assert (await answer_to(server.port, path, long))[0] == 403
    assert (await answer_to(server.port, path, unsaid, b"5\r\nhello\r\n"))[0] == 403
    status, body = await answer_to(server.port, path, server.headers | long)
    assert (status, "larger than 1048576 bytes" in body["message"]) == (413, True)


@pytest.mark.parametrize("route", ["api/conversations", "mcp"])
async def test_a_body_that_does_not_say_its_length_is_kept_up_to_the_bound(server: Server, route: str) -> None:
    path = f"{server.app.base_url}agent-kernel/{route}"
    piece = b"%x\r\n" % MEGABYTE + b"x" * MEGABYTE + b"\r\n"
    sent = [*[piece] * 40, b"0\r\n\r\n"]
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        headers = {**server.headers, "Transfer-Encoding": "chunked"}
        status, _ = await answer_to(server.port, path, headers, *sent)
        grown = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert status == 413
    assert grown < 16 * MEGABYTE


EARLY = {
    "a stranger": ({}, b'{"content": "Go."}', 403),
    "a body that is too large": ({"Authorization": ""}, b"x" * (2 * MEGABYTE), 413),
    "a foreign page": ({"Origin": "https://evil.example", "Cookie": "_xsrf=x"}, b"{}", 404),
}


@pytest.mark.parametrize("who", EARLY)
async def test_a_client_that_keeps_its_connection_gets_its_next_answer(server: Server, who: str) -> None:
    """A body that was not read ends the connection, and the answer says so. A short one is read."""
    headers, body, expected = EARLY[who]
    headers = {name: value or server.headers["Authorization"] for name, value in headers.items()}
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{server.port}{server.app.base_url}agent-kernel/api/"
    ) as client:
        for _ in range(3):
            refused = await client.post("conversations", content=body, headers=headers)
            kept = len(body) <= SHORT_BYTES
            assert (refused.status_code, refused.headers.get("Connection")) == (expected, None if kept else "close")
            assert (await client.get("status", headers=server.headers)).status_code == 200
