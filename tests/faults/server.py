"""A real Jupyter server as a program of its own, and what a page asks of it, without a browser."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import aiohttp

from tests.ports import free_port
from tests.programs import private_home
from tests.waiting import look_until

TOKEN = "a-token-of-the-tests"
STARTS_WITHIN = 60.0


class Client:
    """A WebSocket client that remembers what it is sent."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.frames: list[dict[str, Any]] = []

    async def next(self, seconds: float = 60.0) -> dict[str, Any] | None:
        """The next frame; `None` when the line is gone."""
        message = await self.socket.receive(timeout=seconds)
        if message.type is not aiohttp.WSMsgType.TEXT:
            return None
        frame: dict[str, Any] = json.loads(message.data)
        self.frames.append(frame)
        return frame

    async def until(self, *kinds: str, seconds: float = 60.0) -> dict[str, Any]:
        async with asyncio.timeout(seconds):
            while (frame := await self.next()) is not None:
                if frame["type"] in kinds:
                    return frame
        raise AssertionError(f"The line was gone before {kinds}.")

    def cut(self) -> None:
        """The line is gone at once, in the middle of whatever is on it."""
        transport = self.socket.get_extra_info("socket")
        assert transport is not None
        transport.shutdown(socket.SHUT_RDWR)

    async def send(self, **command: Any) -> None:
        await self.socket.send_str(json.dumps(command))


class Server:
    """`async with Server(directory, environment) as server`. It may be killed and started again on the same data."""

    def __init__(
        self,
        directory: Path,
        environment: Mapping[str, str],
        *options: str,
        extensions: Iterable[str] = (),
        log_of: "Server | None" = None,
    ) -> None:
        """`extensions` are loaded beside Agent Kernel's own; `log_of` is a server whose log this one uses as well."""
        self.directory = directory
        self.log_path: Path = log_of.log_path if log_of is not None else directory / "log" / "agent-kernel.sqlite"
        self._extensions = dict.fromkeys(["agent_kernel_server", *extensions], True)
        self._options = options
        self._environment = {
            **os.environ,
            **environment,
            **private_home(directory),
            "JUPYTER_PLATFORM_DIRS": "1",
            "AGENT_KERNEL_SERVER_PID": "",
        }
        self.process: subprocess.Popen[bytes] | None = None
        self.port = 0
        self._http: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill()

    async def start(self, port: int | None = None) -> None:
        """Start, and wait until the extension answers."""
        self.port = port or free_port()
        self.directory.mkdir(parents=True, exist_ok=True)
        arguments = [
            *(sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root", "--ip=127.0.0.1"),
            *(f"--port={self.port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={TOKEN}"),
            *(f"--ServerApp.root_dir={self.directory}", f"--AgentKernelServer.data_dir={self.log_path.parent}"),
            f"--ServerApp.jpserver_extensions={self._extensions}",
            *("--AgentKernelServer.token_flush_seconds=0.002", "--ServerApp.log_level=WARN"),
            *self._options,
        ]
        with (self.directory / "server.log").open("ab") as log:
            self.process = await asyncio.to_thread(
                lambda: subprocess.Popen(
                    arguments,
                    env=self._environment,
                    cwd=self.directory,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=2)
        self._http = aiohttp.ClientSession(connector=connector, headers={"Authorization": f"token {TOKEN}"})
        await look_until(self._answers, "the server to start", STARTS_WITHIN)

    async def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.directory / "server.log").read_text(errors="replace")[-3000:]
        try:
            status, _ = await self.ask("GET", "agent-kernel/api/status")
        except aiohttp.ClientError:
            return False
        return status == 200

    async def kill(self) -> None:
        """SIGKILL the server alone: its kernels notice by themselves."""
        if self.process is not None:
            self.process.kill()
            await asyncio.to_thread(self.process.wait)
        if self._http is not None:
            await self._http.close()

    async def end(self) -> None:
        """Ask it to stop, as Ctrl-C does twice."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(self.process.wait, 30)
        if self._http is not None:
            await self._http.close()

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        assert self._http is not None
        url = f"http://127.0.0.1:{self.port}/{path}"
        async with self._http.request(method, url, json=body) as answer:
            text = await answer.text()
            return answer.status, json.loads(text) if text else None

    async def api(self, method: str, path: str, body: Any = None) -> Any:
        """An answer that has to be a good one."""
        status, answer = await self.ask(method, f"agent-kernel/api/{path}", body)
        assert status < 300, (status, answer)
        return answer

    async def connect(self, path: str) -> aiohttp.ClientWebSocketResponse:
        assert self._http is not None
        return await self._http.ws_connect(f"ws://127.0.0.1:{self.port}/{path}", max_msg_size=0)

    async def start_kernel(self) -> str:
        status, kernel = await self.ask("POST", "api/kernels", {"name": "python3"})
        assert status == 201, kernel
        return str(kernel["id"])

    async def new_conversation(self, kernel_id: str | None = None) -> str:
        conversation = await self.api("POST", "conversations", {"kernel_id": kernel_id})
        return str(conversation["conversation_id"])

    async def start_run(self, conversation_id: str, prompt: str) -> str:
        run = await self.api("POST", f"conversations/{conversation_id}/runs", {"content": prompt})
        return str(run["run_id"])

    async def waiting(self, counter: Path, calls: int = 1, kernel_id: str | None = None) -> tuple[str, list[Any]]:
        """A conversation whose model has asked for that many calls at once, which leave marks in the counter, and the
        calls, which wait. In a kernel of its own, or in this one."""
        conversation = await self.new_conversation(kernel_id or await self.start_kernel())
        plan = {"steps": [calls], "tool": "run_python", "counter": str(counter)}
        await self.start_run(conversation, f"Go: {json.dumps(plan)}")

        async def look() -> Any:
            found = await self.api("GET", "approvals?state=awaiting_approval")
            return found if len(found) == calls else None

        return conversation, await look_until(look, "the approvals")

    async def view(self, conversation_id: str) -> Any:
        return await self.api("GET", f"conversations/{conversation_id}")

    async def decide(self, approval_id: str, **decision: Any) -> tuple[int, Any]:
        return await self.ask("POST", f"agent-kernel/api/approvals/{approval_id}", {"approved": True, **decision})

    async def ended(self, conversation_id: str, seconds: float = 60.0) -> Any:
        """The conversation once no run of it goes on."""

        async def look() -> Any:
            view = await self.view(conversation_id)
            over = all(run["status"] in ("complete", "cancelled", "error") for run in view["runs"])
            return view if view["runs"] and over else None

        return await look_until(look, "the run to end", seconds)

    @asynccontextmanager
    async def client(self, conversation_id: str, resume: int | None = None) -> AsyncIterator[Client]:
        assert self._http is not None
        url = f"ws://127.0.0.1:{self.port}/agent-kernel/api/conversations/{conversation_id}/channel"
        async with self._http.ws_connect(url, max_msg_size=0, autoping=True) as connection:
            client = Client(connection)
            if resume is not None:
                await client.send(type="resume", last_seq=resume)
            yield client
