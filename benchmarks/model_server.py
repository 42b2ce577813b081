"""A fast fake model server, run as a process of its own: `python -m benchmarks.model_server`.

It prints its port. It speaks Chat Completions. The `model` of a request selects the answer:

    text:N               N tokens, as fast as the socket takes them
    paced:N:MICROS       N tokens, each a write of its own, MICROS apart
    steps:K              K calls of the tool `probe`, one after another, then a short answer
    turn                 one call of `probe`, then an answer of 100 tokens
    marked:N:MICROS      one call of `probe` with the number in the prompt `mark NUMBER`, then N tokens, MICROS apart
    run:CODE:K:N:MICROS  K calls of `run_python` with a named piece of code, then N tokens, MICROS apart
    held:CODE:K:N:MICROS   the same, but the answer does not end
    endless:CODE:K:MICROS  K calls, and then more without end, each MICROS after its request

Tokens are numbered, so that a reader can tell a lost one. `GET /requests/COUNT` lists when each request came,
once there are that many.
"""

import asyncio
import json
import os
import re
import sys
import time
from collections.abc import Callable

from benchmarks.contenders.base import PROSE

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
COUNT = re.compile(rb"^GET /requests/(\d+)")
LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
MODEL = re.compile(rb'"model": ?"([^"]+)"')
ROLE = re.compile(rb'"role": ?"(\w+)"')
MARK = re.compile(rb"mark (\d+)")
ANSWER_TOKENS = 100
WORDS = PROSE[:200_000].split()
TAIL_BYTES = 4096
"""The bytes at the end of a request that are examined: enough for a turn's own messages after any history."""
IDLE_SECONDS = 900

CODE = {
    "clock": "import time\nprint(time.time_ns())",
    "nothing": "pass",
    "lines": "for number in range(20):\n    print(f'line {number} of what a call prints')",
}


def _chunk(data: bytes) -> bytes:
    """A piece of a chunked HTTP body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(delta: dict[str, object], finish: str | None = None) -> bytes:
    """A chunk of Chat Completions."""
    body = {
        "id": "chatcmpl-0123456789",
        "object": "chat.completion.chunk",
        "created": 1_750_000_000,
        "model": "fake",
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}],
    }
    return _chunk(b"data: %b\n\n" % json.dumps(body, separators=(",", ":")).encode())


OPENING = event({"role": "assistant", "content": ""})
CLOSING = (
    _chunk(
        b'data: {"id":"chatcmpl-0123456789","object":"chat.completion.chunk","created":1750000000,"model":"fake",'
        b'"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":100,"total_tokens":200}}\n\n'
    )
    + _chunk(b"data: [DONE]\n\n")
    + b"0\r\n\r\n"
)
"""What follows the chunk with the finish reason."""


def token(number: int) -> str:
    return f"{number:04d} "


class Answers:
    """The state of the answers: how many were sent, and their tokens."""

    def __init__(self) -> None:
        self.calls = 0
        self.texts: dict[int, bytes] = {}
        self.requests: list[dict[str, object]] = []
        self.last = time.monotonic()
        self._waiting: list[tuple[int, Callable[[], None]]] = []

    def note(self, request: dict[str, object]) -> None:
        self.requests.append(request)
        waiting, self._waiting = self._waiting, []
        for count, act in waiting:
            self.when(count, act)

    def when(self, count: int, act: Callable[[], None]) -> None:
        """Call `act` once there are so many requests."""
        if len(self.requests) >= count:
            act()
        else:
            self._waiting.append((count, act))

    def passage(self) -> bytes:
        """A text answer, different each time."""
        start = len(self.requests) * 97 % (len(WORDS) - ANSWER_TOKENS)
        words = (event({"content": f"{word} "}) for word in WORDS[start : start + ANSWER_TOKENS])
        return OPENING + b"".join(words) + event({}, "stop")

    def text(self, tokens: int) -> bytes:
        if tokens not in self.texts:
            said = b"".join(event({"content": token(number)}) for number in range(tokens))
            self.texts[tokens] = OPENING + said + event({}, "stop") + CLOSING
        return self.texts[tokens]

    def call(self, name: str, arguments: str) -> bytes:
        """A call in three pieces, as models stream it."""
        self.calls += 1
        half = len(arguments) // 2
        begun = {"name": name, "arguments": ""}
        pieces = [{"index": 0, "id": f"call_{self.calls:012d}", "type": "function", "function": begun}]
        pieces += [{"index": 0, "function": {"arguments": part}} for part in (arguments[:half], arguments[half:])]
        return OPENING + b"".join(event({"tool_calls": [piece]}) for piece in pieces) + event({}, "tool_calls")


def calls_made(body: bytes) -> int:
    """How many tool messages follow the last user message."""
    roles = ROLE.findall(body)
    done = 0
    for role in reversed(roles):
        if role == b"user":
            break
        done += role == b"tool"
    return done


class Connection(asyncio.Protocol):
    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._buffer = bytearray()
        self._pacing: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.set_write_buffer_limits(high=1 << 24)
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        if self._pacing is not None:
            self._pacing.cancel()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._buffer[:end])
            length = LENGTH.search(head)
            whole = end + 4 + (int(length.group(1)) if length else 0)
            if len(self._buffer) < whole:
                return
            body = bytes(self._buffer[end + 4 : whole])
            del self._buffer[:whole]
            self._answer(head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        self._answers.last = time.monotonic()
        if (count := COUNT.match(head)) is not None:
            self._answers.when(int(count.group(1)), self._list_requests)
            return
        if not head.startswith(b"POST"):  # a request for the list of models, which is empty
            self._transport.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
            return
        match = MODEL.search(body[:512]) or MODEL.search(body[-TAIL_BYTES:]) or MODEL.search(body)
        assert match is not None
        model = match.group(1).decode()
        self._answers.note({"model": model, "ns": time.time_ns(), "bytes": len(body)})
        self._say(model.split(":"), body)

    def _list_requests(self) -> None:
        listed = json.dumps(self._answers.requests).encode()
        self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(listed), listed))

    def _say(self, model: list[str], body: bytes) -> None:
        answers = self._answers
        match model:
            case ["text", tokens]:
                self._transport.write(HEAD + answers.text(int(tokens)))
            case ["paced", tokens, micros]:
                self._pace(int(tokens), int(micros))
            case ["steps", steps] if calls_made(body) < int(steps):
                self._transport.write(HEAD + answers.call("probe", '{"x":1}') + CLOSING)
            case ["steps", _]:
                self._transport.write(HEAD + answers.text(20))
            case ["turn"] if calls_made(body[-TAIL_BYTES:]) < 1:
                self._transport.write(HEAD + answers.call("probe", '{"x":1}') + CLOSING)
            case ["turn"]:
                self._transport.write(HEAD + answers.passage() + CLOSING)
            case ["marked", tokens, micros]:
                self._say_marked(body, int(tokens), int(micros))
            case ["run" | "held" | "endless" as kind, code, steps, *paces]:
                left = int(steps) - calls_made(body)
                self._say_run(kind, json.dumps({"code": CODE[code]}), left, list(map(int, paces)))
            case _:
                self._transport.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")

    def _say_marked(self, body: bytes, tokens: int, micros: int) -> None:
        if calls_made(body) > 0:
            self._pace(tokens, micros)
            return
        (mark,) = MARK.findall(body)
        self._transport.write(HEAD + self._answers.call("probe", json.dumps({"x": int(mark)})) + CLOSING)

    def _say_run(self, kind: str, arguments: str, left: int, paces: list[int]) -> None:
        """The next call of `run_python`, or what comes after the last one."""
        if left <= 0 and kind != "endless":
            tokens, micros = paces
            self._pace(tokens, micros, ends=kind == "run")
            return
        call = HEAD + self._answers.call("run_python", arguments) + CLOSING
        seconds = 0 if left > 0 else paces[0] / 1e6
        asyncio.get_running_loop().call_later(seconds, self._transport.write, call)

    def _pace(self, tokens: int, micros: int, *, ends: bool = True) -> None:
        writing = self._write_paced(tokens, micros / 1e6, ends=ends)
        self._pacing = asyncio.get_running_loop().create_task(writing)

    async def _write_paced(self, tokens: int, seconds: float, *, ends: bool) -> None:
        self._transport.write(HEAD + OPENING)
        begun = time.monotonic()
        for number in range(tokens):
            wait = begun + number * seconds - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            self._transport.write(event({"content": token(number)}))
        if ends:
            self._transport.write(event({}, "stop") + CLOSING)


async def serve() -> None:
    """Serve until no request has come for a quarter of an hour, or the parent process has gone."""
    answers = Answers()
    server = await asyncio.get_running_loop().create_server(lambda: Connection(answers), "127.0.0.1", 0, backlog=1024)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    parent = os.getppid()
    while time.monotonic() - answers.last < IDLE_SECONDS and os.getppid() == parent:  # noqa: ASYNC110
        await asyncio.sleep(1)


if __name__ == "__main__":
    asyncio.run(serve())
