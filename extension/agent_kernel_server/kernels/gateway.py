"""GatewayTransport talks to a kernel behind a gateway (`--gateway-url`), over one WebSocket to the gateway.

Each request may be sent twice without harm, so those without a reply are sent again after the connection was lost. The
gateway checks the signatures of the kernel's messages.
"""

import asyncio
import json
import uuid
from logging import Logger
from typing import Any

from jupyter_client.jsonutil import json_default
from jupyter_client.session import Session
from jupyter_server.gateway.gateway_client import GatewayClient, gateway_request
from jupyter_server.gateway.managers import GatewayMappingKernelManager
from jupyter_server.utils import url_path_join
from pydantic import Field, ValidationError
from tornado.escape import url_escape
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.iostream import StreamClosedError
from tornado.web import HTTPError
from tornado.websocket import WebSocketClientConnection, WebSocketClosedError, WebSocketError, websocket_connect

from agent_kernel.execution.link import Receive
from agent_kernel.protocol.kernel import KernelMessage
from agent_kernel.protocol.kernel_events import EVENT_TYPE, read_event
from agent_kernel.runtime.tasks import TaskOwner
from agent_kernel_server.kernels.transport import Listener

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 5.0
PING_SECONDS = 20.0
ALIVE_SECONDS = 10.0
"""How often the gateway is asked for the kernel: it keeps a connection open also to one that was deleted."""
FRAME_BYTES = 256 * 1024 * 1024
PARSED = (EVENT_TYPE, '"status"')
"""Parts of the frames of IOPub that are for this server. The others are not parsed."""
TRIES, TRY_PAUSE = 5, 1.0
"""How often a gateway that does not answer at the server's start is asked for a kernel, and the seconds in between."""


class FrameHeader(KernelMessage):
    msg_type: str = ""
    msg_id: str | None = None
    session: str | None = None


class Frame(KernelMessage):
    """A kernel's message as its gateway passes it on, in the JSON of Jupyter's WebSocket protocol."""

    channel: str
    header: FrameHeader
    parent_header: FrameHeader = FrameHeader()
    content: dict[str, Any] = Field(default_factory=dict)


class GatewayTransport:
    """See `Transport`."""

    remote = True
    takes_input = False
    reports_interrupts = False
    """Other clients of the gateway may interrupt the kernel."""
    is_ending = False
    """The gateway shuts kernels down, and reports it afterwards."""

    def __init__(self, kernel: Any, listener: Listener, log: Logger, lost_seconds: float) -> None:
        """`kernel`: jupyter_server's `GatewayKernelManager`. Its runs end after `lost_seconds` without the gateway."""
        self._kernel = kernel
        self._lost_seconds = lost_seconds
        self._listener = listener
        self._log = log
        self._session = Session(username="agent-kernel", session=uuid.uuid4().hex)
        self._kernel_session: str | None = None
        """The session of the kernel's present process, once known. A new one means a restart that was not reported."""
        self._ended_session: str | None = None
        self._socket: WebSocketClientConnection | None = None
        self._pending: dict[str, tuple[str, str]] = {}
        """The channel and the text of each request that has no reply yet."""
        self._receive: Receive = lambda _message_id, _content: None
        self._tasks = TaskOwner()
        self._tasks.spawn(self._stay_connected(), f"gateway's channel of {kernel.kernel_id}")

    @property
    def connections(self) -> int:
        return 0 if self._socket is None else 1

    def connect(self, receive: Receive) -> None:
        self._receive = receive

    def disconnect(self) -> None:
        """From the kernel's process. The gateway's connection is for the next one too."""
        self._pending.clear()

    async def is_alive(self) -> bool:
        """False where the gateway says that it has no such kernel. A gateway that does not answer has not said so."""
        try:
            return await self._kernel.refresh_model() is not None
        except HTTPError as error:
            self._log.debug("The gateway did not answer: %s", error)
            return True

    def restarted(self) -> None:
        """The next session is the new process's. Late messages of the old one do not count as another restart."""
        self._ended_session, self._kernel_session = self._kernel_session or self._ended_session, None

    async def aclose(self) -> None:
        await self._tasks.aclose()
        if self._socket is not None:
            self._socket.close()

    def send(self, channel: str, message_type: str, content: dict[str, Any], metadata: dict[str, Any]) -> str:
        message = self._session.msg(message_type, content, metadata=metadata)
        message_id: str = message["msg_id"]
        text = json.dumps({"channel": channel, **message, "buffers": []}, default=json_default)
        self._pending[message_id] = channel, text
        if self._socket is not None:
            self._write(self._socket, text)
        return message_id

    def forget(self, message_id: str) -> None:
        self._pending.pop(message_id, None)

    def _write(self, socket: WebSocketClientConnection, text: str) -> None:
        self._tasks.spawn(_written(socket, text), "frame to a gateway")

    async def _stay_connected(self) -> None:
        """Connect again and again until the kernel is gone."""
        pause, lost_at, reported = FIRST_PAUSE, asyncio.get_running_loop().time(), False
        while True:
            try:
                await self._read_all(await self._connect())
                pause, lost_at, reported = FIRST_PAUSE, asyncio.get_running_loop().time(), False
            except (OSError, HTTPClientError, WebSocketError, StreamClosedError, TimeoutError) as error:
                self._log.debug("No channel of the kernel %s at the gateway: %s", self._kernel.kernel_id, error)
            if not await self.is_alive():
                self._listener.on_gone("The kernel is no longer at its gateway.")
                return
            if not reported and asyncio.get_running_loop().time() - lost_at > self._lost_seconds:
                reported = True
                reason = f"The kernel's gateway could not be reached for {self._lost_seconds:g} s."
                self._listener.on_unreachable(reason)
            await asyncio.sleep(pause)
            pause = min(LONGEST_PAUSE, pause * 2)

    async def _connect(self) -> WebSocketClientConnection:
        client = GatewayClient.instance()
        path = url_path_join(client.ws_url or "", client.kernels_endpoint, url_escape(self._kernel.kernel_id))
        request = HTTPRequest(f"{path}/channels?session_id={self._session.session}", **client.load_connection_args())
        return await websocket_connect(request, ping_interval=PING_SECONDS, max_message_size=FRAME_BYTES)

    async def _read_all(self, socket: WebSocketClientConnection) -> None:
        """Read one connection to its end."""
        self._socket = socket
        watch = self._tasks.spawn(self._close_when_gone(socket), f"watch over {self._kernel.kernel_id}")
        try:
            for _, text in list(self._pending.values()):
                self._write(socket, text)
            while (frame := await socket.read_message()) is not None:
                # All of IOPub comes this way.
                if isinstance(frame, str) and (self._session.session in frame or any(part in frame for part in PARSED)):
                    self._read(frame)
        finally:
            watch.cancel()
            self._socket = None

    async def _close_when_gone(self, socket: WebSocketClientConnection) -> None:
        while True:
            await asyncio.sleep(ALIVE_SECONDS)
            if not await self.is_alive():
                socket.close()
                return

    def _read(self, text: str) -> None:
        try:
            frame = Frame.model_validate_json(text)
            is_event = frame.channel == "iopub" and frame.header.msg_type == EVENT_TYPE
            event = read_event(frame.content) if is_event else None
        except ValidationError as error:
            self._log.debug("A frame from a gateway was dropped: %s", error)
            return
        if event is not None:
            self._listener.on_event(event)
        elif frame.channel != "iopub":
            self._reply(frame.channel, frame.parent_header.msg_id or "", frame.content)
        elif frame.header.msg_type == "status" and isinstance(state := frame.content.get("execution_state"), str):
            self._status(frame.header.session, state)
        elif frame.parent_header.session == self._session.session:
            self._listener.on_output(frame.parent_header.msg_id or "", frame.header.msg_type, frame.content)

    def _reply(self, channel: str, message_id: str, content: dict[str, Any]) -> None:
        """Only the first reply to a request counts, on the channel where it was sent."""
        if self._pending.get(message_id, ("",))[0] == channel:
            del self._pending[message_id]
            self._receive(message_id, content)

    def _status(self, session: str | None, state: str) -> None:
        """The gateway reports "restarting" and "dead", the kernel all else, with the id of its session."""
        if state == "restarting":
            self.restarted()
            self._listener.on_restart("The kernel died and was restarted.", after_death=True)
        elif state == "dead":
            self._listener.on_gone("The kernel died.")
        elif session not in (self._kernel_session, self._ended_session):
            known, self._kernel_session = self._kernel_session is not None, session
            if known:
                self._listener.on_restart("The kernel was restarted.", after_death=False)


async def _written(socket: WebSocketClientConnection, text: str) -> None:
    try:
        await socket.write_message(text)
    except (WebSocketClosedError, StreamClosedError):
        return  # it is sent again once connected


async def take_over(manager: Any, kernel_id: str, log: Logger) -> bool:
    """Have Jupyter manage a kernel again that an earlier server left at the gateway. False where there is none."""
    if not isinstance(manager, GatewayMappingKernelManager):
        return False
    for _ in range(TRIES):
        try:
            await gateway_request(url_path_join(manager.kernels_url, url_escape(kernel_id)), method="GET")
        except HTTPError as error:
            if error.status_code == 404:
                return False
            log.debug("The gateway did not answer: %s", error)
            await asyncio.sleep(TRY_PAUSE)
        else:
            await manager.start_kernel(kernel_id=kernel_id)  # starts none: the id is known at the gateway
            return True
    return False
