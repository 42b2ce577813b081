"""A Jupyter server with the extension, in the process and the event loop of the tests, which tests share one after
another."""

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlencode

import pytest
from jupyter_server.serverapp import ServerApp
from tornado.httpclient import AsyncHTTPClient, HTTPRequest, HTTPResponse
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.websocket import WebSocketClientConnection, websocket_connect
from traitlets.config import Config

from agent_kernel_server.app import AgentKernelServer
from agent_kernel_server.service import Service
from tests.server.client import Kernel
from tests.waiting import until

TOKEN = "token-of-the-tests"
FORGET = """\
__import__("os").chdir({folder!r})
if get_ipython().find_line_magic("agent"):
    get_ipython().run_line_magic("agent", "config reset")
    get_ipython().run_line_magic("agent", "new")
get_ipython().run_line_magic("reset", "-f")
for history in ("input_hist_raw", "input_hist_parsed"):
    getattr(get_ipython().history_manager, history)[:] = [""]
"""
"""What a kernel forgets for the next test: its folder, the user's variables and cells, the defaults and the
conversation of its prompts."""


@dataclass(frozen=True)
class Wanted:
    """How a test wants its server."""

    server: Mapping[str, Any]
    extension: Mapping[str, Any]
    environment: Mapping[str, str]


class Server:
    """A running server. It has folders of its own for its notebooks, with one in it where kernels begin, and for its
    data."""

    def __init__(self, app: ServerApp, port: int, folder: Path) -> None:
        self.app = app
        self.port = port
        self.root = folder / "root"
        self.data = folder / "data"
        self._http = AsyncHTTPClient(force_instance=True, max_clients=100)
        self._kernel: Kernel | None = None
        self._first_process: int | None = None

    @property
    def extension(self) -> AgentKernelServer:
        found: AgentKernelServer = self.app.extension_manager.extension_points["agent_kernel_server"].app
        return found

    @property
    def service(self) -> Service:
        assert self.extension.service is not None
        return self.extension.service

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"token {TOKEN}"}

    def url(self, scheme: str, parts: tuple[str, ...], params: Mapping[str, str] | None) -> str:
        path = quote("/".join(part.strip("/") for part in parts))
        return f"{scheme}://127.0.0.1:{self.port}{self.app.base_url}{path}?{urlencode(params or {})}"

    def fetch(
        self,
        *parts: str,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        request_timeout: float = 60,  # a busy machine may need longer than Tornado's own 20 s to start a kernel
        **options: Any,
    ) -> Awaitable[HTTPResponse]:
        """Begins at once. Raises `HTTPClientError`."""
        asked = self.headers | dict(headers or {})
        url = self.url("http", parts, params)
        return self._http.fetch(url, headers=asked, request_timeout=request_timeout, **options)

    async def open_socket(
        self,
        *parts: str,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        **options: Any,
    ) -> WebSocketClientConnection:
        asked = self.headers | dict(headers or {})
        request = HTTPRequest(self.url("ws", parts, params), headers=asked, connect_timeout=120, **options)
        return await websocket_connect(request)

    async def start_kernel(self) -> Kernel:
        answer = await self.fetch(
            "api", "kernels", method="POST", body=json.dumps({"name": "python3", "path": "folder"})
        )
        return Kernel(json.loads(answer.body)["id"], self.app.kernel_manager)

    async def kernel(self) -> Kernel:
        """The kernel that tests share."""
        if self._kernel is None:
            self._kernel = await self.start_kernel()
            self._first_process = await self._process()
        return self._kernel

    async def _process(self) -> int | None:
        """The process of the shared kernel, while it lives. It is another one after a restart."""
        manager = self.app.kernel_manager
        if self._kernel is None or self._kernel.kernel_id not in manager:
            return None
        kernel: Any = manager.get_kernel(self._kernel.kernel_id)
        return kernel.provisioner.pid if await kernel.is_alive() else None

    async def forget(self) -> None:
        """Be for the next test as if no test had been before it."""
        service = self.service
        runtime = await service.runtime()
        for conversation in json.loads(await runtime.list_conversations()):
            await runtime.delete_conversation(conversation["conversation_id"])
            service.chats.forget(conversation["conversation_id"])
        for rule in await runtime.list_rules():
            if rule.rule_id is not None:
                await runtime.remove_rule(rule.rule_id)
        await until(lambda: not service.streams and not service.channels and not service.page_sockets)
        self.end_sessions()
        shutil.rmtree(self.root)
        (self.root / "folder").mkdir(parents=True)
        if self._kernel is not None and await self._process() != self._first_process:
            await self._kernel.close()
            self._kernel = None
        kept = {self._kernel.kernel_id} if self._kernel is not None else set()
        for kernel_id in set(self.app.kernel_manager.list_kernel_ids()) - kept:
            await self.app.kernel_manager.shutdown_kernel(kernel_id, now=True)
        if self._kernel is not None:
            await self._kernel.run(FORGET.format(folder=str(self.root / "folder")))

    def end_sessions(self) -> None:
        """As they are when their kernels are gone, but those go on."""
        self.app.session_manager.cursor.execute("DELETE FROM session")

    async def leave(self) -> None:
        """Close the clients of it."""
        self._http.close()
        if self._kernel is not None:
            await self._kernel.close()


class Servers:
    """Runs one server at a time, and keeps it for as long as the tests want the same."""

    def __init__(self, new_folder: Callable[[], Path]) -> None:
        self._new_folder = new_folder
        self._server: Server | None = None
        self._wanted: Wanted | None = None
        self._http: HTTPServer | None = None
        self._environment = pytest.MonkeyPatch()

    async def get(self, wanted: Wanted) -> Server:
        if self._server is None or self._wanted != wanted:
            await self.stop()
            self._server, self._wanted = await self._start(wanted), wanted
        return self._server

    async def _start(self, wanted: Wanted) -> Server:
        for name, value in wanted.environment.items():
            self._environment.setenv(name, value)
        self._environment.setenv("AGENT_KERNEL_SERVER_PID", "")
        self._environment.setenv("JUPYTER_NO_CONFIG", "1")
        folder = self._new_folder()
        (folder / "root" / "folder").mkdir(parents=True)
        listener, port = bind_unused_port()
        config = {
            "ServerApp": {
                "jpserver_extensions": {"agent_kernel_server": True, "jupyter_server_terminals": True},
                "root_dir": str(folder / "root"),
                "open_browser": False,
                "allow_root": True,
                "port": port,
                "log_level": "DEBUG",
                **wanted.server,
            },
            "IdentityProvider": {"token": TOKEN},
            "NotebookNotary": {"db_file": ":memory:"},
            "KernelRestarter": {"time_to_dead": 0.3},  # seconds between two looks whether a kernel has died
            "AgentKernelServer": {
                "data_dir": str(folder / "data" / "agent-kernel"),
                **wanted.extension,
            },
        }
        ServerApp.clear_instance()
        app = ServerApp.instance(config=Config(config))
        app.init_signal = lambda: None  # type: ignore[method-assign]
        app.initialize(argv=[], new_httpserver=False)
        app.log.handlers = []
        app.log.propagate = True
        app.start_app()
        self._http = HTTPServer(app.web_app)
        self._http.add_socket(listener)
        await app.extension_manager.start_all_extensions()
        return Server(app, port, folder)

    async def stop(self) -> None:
        """Stop the server as it stops in life."""
        if self._server is None:
            return
        server, self._server = self._server, None
        assert self._http is not None
        self._http.stop()
        await server.leave()
        await server.app._cleanup()
        await self._http.close_all_connections()
        server.app.kernel_manager.context.destroy()
        ServerApp.clear_instance()
        self._environment.undo()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
        await asyncio.sleep(0)
