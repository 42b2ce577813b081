"""A fake OpenAI-compatible server, for tests of everything but the model.

In a test:

    with FakeOpenAI([call("run_python", code="1 + 1"), say("Two.")]) as server:
        environ = server.environment()          # OPENAI_BASE_URL, OPENAI_API_KEY, AGENT_KERNEL_MODEL

For a program of its own, `python -m agent_kernel.testing.fake_openai --port 0 --script FILE` prints its base URL. FILE
holds a JSON list of turns: `{"say": "Two."}`, `{"call": "run_python", "arguments": {"code": "1 + 1"}}`,
`{"calls": [{"call": ..., "arguments": ...}], "say": "Let me look."}` and
`{"status": 429, "retry_after": "1", "times": 2}`.

It runs in a thread of its own, so that the code under test may block or use another event loop. It listens on the
loopback address only.
"""

import argparse
import asyncio
import json
import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from agent_kernel.models.base import ModelTurn
from agent_kernel.testing.scripted_model import ScriptMismatch
from agent_kernel.testing.turns import requested, say
from agent_kernel.testing.wire import Reply, failure, streamed

Scripted = ModelTurn | Reply | Callable[[dict[str, Any]], ModelTurn | Reply]
"""A turn, a whole HTTP answer (`agent_kernel.testing.wire`), or a function of the request's JSON."""

FAKE_KEY = "sk-fake-0123456789abcdef"


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: dict[str, Any]


class FakeOpenAI:
    """Answers chat completions from a script and records what it was asked.

    As a context manager it starts, stops and raises `ScriptMismatch` if the script and the requests did not match;
    `repeat=True` begins the script again instead of failing.
    """

    def __init__(self, script: Iterable[Scripted] = (), *, port: int = 0, repeat: bool = False) -> None:
        self._script = list(script)
        self._port = port
        self._repeat = repeat
        self._position = 0
        self._said = 0  # how often the current entry was said
        self._unexpected = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._closing: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._serve, name="fake-openai", daemon=True)
        self._failure: BaseException | None = None
        self.requests: list[ReceivedRequest] = []
        self.abandoned = 0
        """How many answers the client left before they ended."""

    @property
    def url(self) -> str:
        """The base URL, as OPENAI_BASE_URL wants it."""
        return f"http://127.0.0.1:{self._port}/v1"

    def environment(self, model: str = "fake") -> dict[str, str]:
        """The variables that make this the default endpoint."""
        return {"OPENAI_BASE_URL": self.url, "OPENAI_API_KEY": FAKE_KEY, "AGENT_KERNEL_MODEL": model}

    def add(self, *scripted: Scripted) -> None:
        self._script.extend(scripted)

    def start(self) -> Self:
        """Raises `OSError` if the port is taken."""
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure
        return self

    def stop(self) -> None:
        if self._loop is not None and self._closing is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()

    def assert_consumed(self) -> None:
        if self._unexpected:
            raise ScriptMismatch(f"The fake server was asked for {self._unexpected} more answers than were written.")
        left = len(self._script) - self._position
        if left and not self._repeat:
            raise ScriptMismatch(f"{left} of {len(self._script)} written answers were never asked for.")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
        if error is None:
            self.assert_consumed()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)
        if error is None:
            self.assert_consumed()

    def _serve(self) -> None:
        try:
            asyncio.run(self._run())
        except OSError as error:
            self._failure = error
        finally:
            self._ready.set()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        app = web.Application(client_max_size=2**28)
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_get("/v1/models", _models)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", self._port)
            await site.start()
            self._port = runner.addresses[0][1]
            self._ready.set()
            await self._closing.wait()
        finally:
            await runner.cleanup()

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.requests.append(ReceivedRequest(request.path, headers, body))
        reply = self._next(body)
        try:
            return await self._send(request, reply)
        except (asyncio.CancelledError, ConnectionResetError):
            self.abandoned += 1
            raise

    def _next(self, body: dict[str, Any]) -> Reply:
        if self._position >= len(self._script):
            self._unexpected += 1
            return failure(400, "the script of the fake server has no more answers")
        scripted = self._script[self._position]
        answer = scripted if isinstance(scripted, ModelTurn | Reply) else scripted(body)
        reply = streamed(answer) if isinstance(answer, ModelTurn) else answer
        self._said += 1
        if self._said >= reply.times:
            self._said = 0
            self._position += 1
            if self._repeat:
                self._position %= len(self._script)
        return reply

    async def _send(self, request: web.Request, reply: Reply) -> web.StreamResponse:
        response = web.StreamResponse(status=reply.status, headers=reply.headers)
        response.content_type = reply.content_type
        end = min(size for size in (reply.cut_after, reply.hang_after, len(reply.body)) if size is not None)
        if reply.hang_after == 0:
            await self._silence()
        await response.prepare(request)
        for piece in _pieces(reply.body[:end], reply.split_every):
            await response.write(piece)
            await asyncio.sleep(reply.pause)  # lets the event loop send each piece by itself
        if reply.hang_after is not None:
            await self._silence()
        if reply.cut_after is not None and request.transport is not None:
            request.transport.abort()
            return response
        await response.write_eof()
        return response

    async def _silence(self) -> None:
        assert self._closing is not None
        await self._closing.wait()


def _pieces(body: bytes, size: int | None) -> Sequence[bytes]:
    if size is not None:
        return [body[start : start + size] for start in range(0, len(body), size)]
    return re.findall(rb".*?\n\n|.+", body, re.DOTALL)


async def _models(_request: web.Request) -> web.Response:
    return web.json_response({"object": "list", "data": [{"id": "fake", "object": "model"}]})


def read_script(path: Path) -> list[Scripted]:
    """Read a script file. Raises `ValueError` for an entry that is none of the shapes in the module's docstring."""
    return [_entry(entry) for entry in json.loads(path.read_text(encoding="utf-8"))]


def _entry(entry: dict[str, Any]) -> Scripted:
    match entry:
        case {"status": int(status)}:
            headers = {"retry_after": str(entry["retry_after"])} if "retry_after" in entry else {}
            return failure(status, entry.get("message", "scripted failure"), times=entry.get("times", 1), **headers)
        case {"calls": list(requested_calls)}:
            return _turn(requested_calls, entry)
        case {"call": str()}:
            return _turn([entry], entry)
        case {"say": str(text)}:
            return say(text)
        case _:
            raise ValueError(f"This is no turn of a script: {entry!r}")


def _turn(requested_calls: list[dict[str, Any]], entry: dict[str, Any]) -> ModelTurn:
    made = tuple(requested(one["call"], one.get("arguments", {})) for one in requested_calls)
    return ModelTurn(content=entry.get("say", ""), tool_calls=made)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m agent_kernel.testing.fake_openai", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", type=Path, required=True)
    parser.add_argument("--repeat", action="store_true", help="begin the script again when it is through")
    options = parser.parse_args(arguments)
    server = FakeOpenAI(read_script(options.script), port=options.port, repeat=options.repeat).start()
    sys.stdout.write(f"{server.url}\n")
    sys.stdout.flush()
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        server.stop()


if __name__ == "__main__":
    main()
