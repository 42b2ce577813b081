"""The least that an answer to a call can take: it is committed to a file, and then a kernel is asked to run the call.

No log, no checks, no outputs, no outcome: a WebSocket, a row that is flushed to disk by a thread (the event loop never
stands still), and a request to the kernel.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application
from tornado.websocket import WebSocketHandler

from benchmarks.bare import BareKernel

SECONDS = 60


class _File:
    """A journal of answers, as durable as the agent's log."""

    def __init__(self, path: Path) -> None:
        self._sql = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._sql.execute("PRAGMA journal_mode = WAL")
        self._sql.execute("PRAGMA synchronous = FULL")
        self._sql.execute("CREATE TABLE answers (number INTEGER PRIMARY KEY, answer TEXT) STRICT")

    def commit(self, answer: str) -> None:
        self._sql.execute("INSERT INTO answers (answer) VALUES (?)", (answer,))

    def close(self) -> None:
        self._sql.close()


class _Answers(WebSocketHandler):
    def initialize(self, file: _File, thread: ThreadPoolExecutor, kernel: BareKernel) -> None:
        self._file, self._thread, self._kernel = file, thread, kernel

    def check_origin(self, _: str) -> bool:
        return True

    async def on_message(self, message: str | bytes) -> None:
        """Reply with the id of the request, whose value is the time of the call's first line (`BareKernel.told`)."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._file.commit, str(message))
        await self.write_message(self._kernel.ask_clock())


@contextmanager
def bare_decisions(kernel: BareKernel, file: Path) -> Iterator[str]:
    """Serve in a thread; the address of the WebSocket."""
    address: list[str] = []
    loop = asyncio.new_event_loop()
    ready, stop = threading.Event(), asyncio.Event()

    async def serve() -> None:
        answers = _File(file)
        with ThreadPoolExecutor(1) as thread:
            sockets = bind_sockets(0, "127.0.0.1")
            given = {"file": answers, "thread": thread, "kernel": kernel}
            server = HTTPServer(Application([("/", _Answers, given)]))
            server.add_sockets(sockets)
            address.append(f"ws://127.0.0.1:{sockets[0].getsockname()[1]}/")
            ready.set()
            await stop.wait()
            server.stop()
            await server.close_all_connections()
        answers.close()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), name="bare decisions")
    thread.start()
    try:
        if not ready.wait(SECONDS):
            raise TimeoutError("the bare server did not start")
        yield address[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(SECONDS)
        loop.close()
