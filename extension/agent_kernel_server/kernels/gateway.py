"""A kernel behind a gateway (`--gateway-url`): all of it goes over one WebSocket to the gateway, which speaks ZMQ.

Every request of the kernel link may be sent twice without harm, so what was not answered when the line broke is sent
again when it is back. The gateway checks the signatures of what the kernel says.
"""

import asyncio
import json
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from logging import Logger
from typing import Any

from jupyter_server.gateway.gateway_client import GatewayClient, gateway_request
from jupyter_server.gateway.managers import GatewayMappingKernelManager
from jupyter_server.utils import url_path_join
from pydantic import ValidationError
from tornado.escape import url_escape
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.iostream import StreamClosedError
from tornado.web import HTTPError
from tornado.websocket import WebSocketClientConnection, WebSocketClosedError, WebSocketError, websocket_connect

from agent_kernel.runtime.tasks import TaskOwner
from agent_kernel_server.kernels.messages import EVENT_TYPE, GatewayFrame, kernel_event_adapter
from agent_kernel_server.kernels.transport import Listener, Receive

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 5.0
PING_SECONDS = 20.0
ALIVE_SECONDS = 10.0
"""How often the gateway is asked for the kernel: it keeps a line open also to one that was deleted."""
FRAME_BYTES = 256 * 1024 * 1024
LOOKS, LOOK_PAUSE = 5, 1.0
"""How often a gateway that does not answer at the server's start is asked for a kernel, and the seconds in between."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that is not answered yet."""

    channel: str
    text: str
    receive: Receive


class GatewayTransport:
    remote = True
    tells_interrupts = False
    """A gateway's other clients interrupt it too."""
    is_ending = False
    """The gateway does it, and does not tell before it is done."""

    def __init__(self, kernel: Any, listener: Listener, log: Logger, lost_seconds: float) -> None:
        """`kernel`: jupyter_server's `GatewayKernelManager`. After `lost_seconds` without its gateway its runs end."""
        self._kernel = kernel
        self._lost_seconds = lost_seconds
        self._listener = listener
        self._log = log
        self._session = uuid.uuid4().hex
        self._life: str | None = None
        """The session of the kernel's present life, once heard. A restart that nobody told of shows by another one."""
        self._ended_life: str | None = None
        self._socket: WebSocketClientConnection | None = None
        self._unanswered: dict[str, Asked] = {}
        self._tasks = TaskOwner()
        self._tasks.spawn(self._stay_connected(), f"gateway's channel of {kernel.kernel_id}")

    @property
    def connections(self) -> int:
        return 0 if self._socket is None else 1

    def open_wire(self, receive: Receive) -> "GatewayWire":
        return GatewayWire(self, receive)

    async def is_alive(self) -> bool:
        """False where the gateway says that it has no such kernel. A gateway that does not answer has not said so."""
        try:
            return await self._kernel.refresh_model() is not None
        except HTTPError as error:
            self._log.debug("The gateway did not answer: %s", error)
            return True

    def restarted(self) -> None:
        """The next session is the new life's; what the old one still has to say is no news."""
        self._ended_life, self._life = self._life or self._ended_life, None

    async def aclose(self) -> None:
        await self._tasks.aclose()
        if self._socket is not None:
            self._socket.close()

    def send(self, channel: str, message_type: str, content: dict[str, Any], receive: Receive) -> str:
        message_id = f"{self._session}_{uuid.uuid4().hex}"
        header = {
            "msg_id": message_id,
            "msg_type": message_type,
            "session": self._session,
            "username": "agent-kernel",
            "date": datetime.now(UTC).isoformat(),
            "version": "5.3",
        }
        parts = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "buffers": []}
        text = json.dumps({"channel": channel, **parts})
        self._unanswered[message_id] = Asked(channel, text, receive)
        if self._socket is not None:
            self._write(self._socket, text)
        return message_id

    def forget(self, message_id: str) -> None:
        self._unanswered.pop(message_id, None)

    def _write(self, socket: WebSocketClientConnection, text: str) -> None:
        self._tasks.spawn(_written(socket, text), "frame to a gateway")

    async def _stay_connected(self) -> None:
        """Hold the line until the kernel is gone."""
        pause, lost_at, told = FIRST_PAUSE, asyncio.get_running_loop().time(), False
        while True:
            try:
                await self._hold(await self._connect())
                pause, lost_at, told = FIRST_PAUSE, asyncio.get_running_loop().time(), False
            except (OSError, HTTPClientError, WebSocketError, StreamClosedError, TimeoutError) as error:
                self._log.debug("No channel of the kernel %s at the gateway: %s", self._kernel.kernel_id, error)
            if not await self.is_alive():
                self._listener.gone("The kernel is no longer at its gateway.")
                return
            if not told and asyncio.get_running_loop().time() - lost_at > self._lost_seconds:
                told = True
                self._listener.out_of_reach(f"The kernel's gateway could not be reached for {self._lost_seconds:g} s.")
            await asyncio.sleep(pause)
            pause = min(LONGEST_PAUSE, pause * 2)

    async def _connect(self) -> WebSocketClientConnection:
        client = GatewayClient.instance()
        path = url_path_join(client.ws_url or "", client.kernels_endpoint, url_escape(self._kernel.kernel_id))
        request = HTTPRequest(f"{path}/channels?session_id={self._session}", **client.load_connection_args())
        return await websocket_connect(request, ping_interval=PING_SECONDS, max_message_size=FRAME_BYTES)

    async def _hold(self, socket: WebSocketClientConnection) -> None:
        """Read one connection to its end."""
        self._socket = socket
        watch = self._tasks.spawn(self._close_when_gone(socket), f"watch over {self._kernel.kernel_id}")
        try:
            for asked in list(self._unanswered.values()):
                self._write(socket, asked.text)
            while (frame := await socket.read_message()) is not None:
                # The whole of IOPub comes along here: what is not for this server costs no parsing.
                if isinstance(frame, str) and (self._session in frame or EVENT_TYPE in frame or '"status"' in frame):
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
            frame = GatewayFrame.model_validate_json(text)
            event = kernel_event_adapter.validate_python(frame.content) if _is_event(frame) else None
        except ValidationError as error:
            self._log.debug("A frame from a gateway was dropped: %s", error)
            return
        if event is not None:
            self._listener.hear(event)
        elif frame.channel != "iopub":
            self._answer(frame.channel, frame.parent_header.msg_id or "", frame.content)
        elif frame.header.msg_type == "status" and isinstance(state := frame.content.get("execution_state"), str):
            self._status(frame.header.session, state)

    def _answer(self, channel: str, message_id: str, content: dict[str, Any]) -> None:
        """Only what was asked is answered, once, and on the channel where it was asked."""
        asked = self._unanswered.get(message_id)
        if asked is not None and asked.channel == channel:
            del self._unanswered[message_id]
            asked.receive(message_id, content)

    def _status(self, session: str | None, state: str) -> None:
        """The gateway says "restarting" and "dead"; all else comes from the kernel, with its session's id."""
        if state == "restarting":
            self.restarted()
            self._listener.life_ended("The kernel died and was restarted.", restarting=True)
        elif state == "dead":
            self._listener.gone("The kernel died.")
        elif session not in (self._life, self._ended_life):
            known, self._life = self._life is not None, session
            if known:
                self._listener.life_ended("The kernel was restarted.", restarting=False)


def _is_event(frame: GatewayFrame) -> bool:
    return frame.channel == "iopub" and frame.header.msg_type == EVENT_TYPE


class GatewayWire:
    """The requests of one link to a kernel, on the line that all of them share."""

    def __init__(self, reach: GatewayTransport, receive: Receive) -> None:
        self._reach = reach
        self._receive = receive
        self._sent: set[str] = set()

    def send(self, channel: str, message_type: str, content: dict[str, Any]) -> str:
        message_id = self._reach.send(channel, message_type, content, self._receive)
        self._sent.add(message_id)
        return message_id

    def forget(self, message_id: str) -> None:
        self._sent.discard(message_id)
        self._reach.forget(message_id)

    def close(self) -> None:
        for message_id in tuple(self._sent):
            self.forget(message_id)


async def _written(socket: WebSocketClientConnection, text: str) -> None:
    try:
        await socket.write_message(text)
    except (WebSocketClosedError, StreamClosedError):
        return  # it is sent again when the line is back


async def take_over(manager: Any, kernel_id: str, log: Logger) -> bool:
    """Have Jupyter know a kernel again that an earlier server left at the gateway. False where there is none."""
    if not isinstance(manager, GatewayMappingKernelManager):
        return False
    for _ in range(LOOKS):
        try:
            await gateway_request(url_path_join(manager.kernels_url, url_escape(kernel_id)), method="GET")
        except HTTPError as error:
            if error.status_code == 404:
                return False
            log.debug("The gateway did not answer: %s", error)
            await asyncio.sleep(LOOK_PAUSE)
        else:
            await manager.start_kernel(kernel_id=kernel_id)  # starts none: the id is known at the gateway
            return True
    return False
