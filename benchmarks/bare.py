"""What a decision costs without the agent, its log and its cards: a bare client of a kernel, and a bare server of
decisions."""

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from jupyter_client.blocking.client import BlockingKernelClient
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application
from tornado.websocket import WebSocketHandler

from benchmarks.contenders.base import open_database
from tests.e2e.lab import LabServer

SECONDS = 60
CLOCK = "import time\nat = time.time_ns()"


class BareKernel:
    """A kernel of a Jupyter server on this machine, over ZeroMQ, past the server."""

    def __init__(self, client: BlockingKernelClient) -> None:
        self._client = client

    def told(self, request: str) -> str:
        """Wait for the reply to a request: the representation of its value."""
        while (reply := self._client.get_shell_msg(timeout=SECONDS))["parent_header"]["msg_id"] != request:
            continue
        return str(reply["content"]["user_expressions"]["value"]["data"]["text/plain"])

    def ask_clock(self) -> str:
        """Send a request whose value is the time of its first line, in nanoseconds since the epoch."""
        request: str = self._client.execute(CLOCK, store_history=False, user_expressions={"value": "at"})
        return request


@contextmanager
def bare_kernel(lab: LabServer, kernel_id: str) -> Iterator[BareKernel]:
    client = BlockingKernelClient(connection_file=str(lab.home / "runtime" / f"kernel-{kernel_id}.json"))
    client.load_connection_file()
    client.start_channels(iopub=False, stdin=False, hb=False, control=False)
    try:
        yield BareKernel(client)
    finally:
        client.stop_channels()


class _Answers(WebSocketHandler):
    def initialize(self, file: sqlite3.Connection, thread: ThreadPoolExecutor, kernel: BareKernel) -> None:
        self._file, self._thread, self._kernel = file, thread, kernel

    def check_origin(self, _: str) -> bool:
        return True

    async def on_message(self, message: str | bytes) -> None:
        """Reply with the id of the request, whose value is the time of the call's first line (`BareKernel.told`)."""
        commit = partial(self._file.execute, "INSERT INTO answers (answer) VALUES (?)", (str(message),))
        await asyncio.get_running_loop().run_in_executor(self._thread, commit)
        await self.write_message(self._kernel.ask_clock())


@contextmanager
def bare_decisions(kernel: BareKernel, file: Path) -> Iterator[str]:
    """The least that an answer to a call can take: it is committed to a file by a thread, and then a kernel is asked to
    run the call. Served in a thread; the address of the WebSocket."""
    address: list[str] = []
    loop = asyncio.new_event_loop()
    ready, stop = threading.Event(), asyncio.Event()

    async def serve() -> None:
        with ThreadPoolExecutor(1) as thread, closing(open_database(file)) as answers:
            answers.execute("CREATE TABLE answers (number INTEGER PRIMARY KEY, answer TEXT)")
            sockets = bind_sockets(0, "127.0.0.1")
            given = {"file": answers, "thread": thread, "kernel": kernel}
            server = HTTPServer(Application([("/", _Answers, given)]))
            server.add_sockets(sockets)
            address.append(f"ws://127.0.0.1:{sockets[0].getsockname()[1]}/")
            ready.set()
            await stop.wait()
            server.stop()
            await server.close_all_connections()

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
