"""HTTP requests that come before the service is loaded: those of people who have logged in load it, but for one that
pages make on their own."""

from typing import Any
from urllib.parse import parse_qs

from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.serverapp import ServerWebApplication
from tornado import httputil, web
from tornado.routing import Router

from agent_kernel_server.bodies import BodyHandler
from agent_kernel_server.identity import AUTH_RESOURCE
from agent_kernel_server.standby import Standby

OPEN_RUNS = "/agent-kernel/api/runs"


class FirstRequests(Router):
    """Holds each request until the service is loaded, and then has the application find its handler. From then on it
    holds none."""

    SUPPORTED_METHODS = ()
    """Jupyter looks here for methods that need a login. The handlers behind this router are looked at when they are
    added."""

    def __init__(self, application: ServerWebApplication, standby: Standby) -> None:
        self._application = application
        self._standby = standby

    def find_handler(
        self,
        request: httputil.HTTPServerRequest,
        **_: Any,
    ) -> httputil.HTTPMessageDelegate | None:
        return None if self._standby.service is not None else _Held(self._application, self._standby, request)


class _Held(httputil.HTTPMessageDelegate):
    """One request. Its connection reads nothing more before `headers_received` is done."""

    def __init__(
        self, application: ServerWebApplication, standby: Standby, request: httputil.HTTPServerRequest
    ) -> None:
        self._application = application
        self._standby = standby
        self._request = request
        self._handler: httputil.HTTPMessageDelegate | None = None
        self._left = False

    async def headers_received(
        self, start_line: httputil.RequestStartLine | httputil.ResponseStartLine, headers: httputil.HTTPHeaders
    ) -> None:
        self._handler = await self._find()
        if self._left:
            return
        received = self._handler.headers_received(start_line, headers)
        if received is not None:
            await received

    async def _find(self) -> httputil.HTTPMessageDelegate:
        if self._request.method == "OPTIONS" or not await self._has_user():
            return self._application.get_handler_delegate(self._request, StrangerHandler)
        if self._asks_for_open_runs() and not await self._standby.has_open_runs():
            return self._application.get_handler_delegate(self._request, NoRunsHandler)
        try:
            await self._standby.load()
        except Exception as error:  # noqa: BLE001 -- it becomes the answer
            fault = {"fault": f"Agent Kernel can't be loaded: {type(error).__name__}: {error}"}
            return self._application.get_handler_delegate(self._request, NotLoadedHandler, fault)
        found = self._application.find_handler(self._request)
        assert found is not None
        return found

    async def _has_user(self) -> bool:
        """Whether the identity provider knows who asks. It looks at a request by way of a handler."""
        handler = APIHandler(self._application, self._request)
        return await ensure_async(handler.identity_provider.get_user(handler)) is not None

    def _asks_for_open_runs(self) -> bool:
        """JupyterLab's extension asks whenever a notebook is opened."""
        asked = parse_qs(self._request.query)
        path = self._request.path
        return self._request.method == "GET" and path.endswith(OPEN_RUNS) and asked.get("state") == ["open"]

    def data_received(self, chunk: bytes) -> Any:
        return self._handler.data_received(chunk) if self._handler is not None else None

    def finish(self) -> None:
        if self._handler is not None:
            self._handler.finish()

    def on_connection_close(self) -> None:
        self._left = True
        if self._handler is not None:
            self._handler.on_connection_close()


class StrangerHandler(BodyHandler):
    """Answers requests without a user: a browser that asks for a page of another origin gets Jupyter's answer, and all
    others are refused."""

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        self.set_cors_headers()  # as `AgentKernelHandler.write_error`
        super().write_error(status_code, **kwargs)


class NoRunsHandler(BodyHandler):
    """The list of open runs, where there are none."""

    auth_resource = AUTH_RESOURCE

    @web.authenticated
    @authorized
    async def get(self, *_: str) -> None:
        self.finish("[]")


class NotLoadedHandler(BodyHandler):
    """Answers every request with what is wrong."""

    auth_resource = AUTH_RESOURCE

    def initialize(self, fault: str) -> None:
        self._fault = fault

    @web.authenticated
    @authorized
    async def get(self, *_: str) -> None:
        self.set_status(503)
        self.finish({"message": self._fault})

    post = delete = get
