"""ZmqTransport talks to a kernel whose ZMQ sockets are open to this process."""

import asyncio
import uuid
from collections.abc import Callable
from logging import Logger
from typing import Any

import zmq
from jupyter_core.utils import ensure_async
from jupyter_server.services.kernels.kernelmanager import ServerKernelManager
from pydantic import ValidationError
from zmq.eventloop.zmqstream import ZMQStream

from agent_kernel.protocol.kernel_questions import KernelEvent, read_event
from agent_kernel.protocol.kernel_topics import EVENT_TYPE
from agent_kernel_server.kernels.tap import EventTap
from agent_kernel_server.kernels.transport import Listener, Receive


class ZmqTransport:
    """See `Transport`."""

    remote = False
    connections = 0

    def __init__(self, kernel: Any, listener: Listener, log: Logger, tap: EventTap | None = None) -> None:
        """`kernel`: Jupyter's manager of one kernel. `tap`: the one that has listened to it so far."""
        self._kernel = kernel
        self._listener = listener
        self._log = log
        self._ports = list(kernel.ports)
        self._events = ZmqEvents(kernel, listener.on_event, log, tap)

    @property
    def is_ending(self) -> bool:
        return bool(self._kernel.shutting_down)

    @property
    def is_idle(self) -> bool:
        return getattr(self._kernel, "execution_state", None) == "idle"  # Jupyter reads it from the kernel's IOPub

    async def ends_soon(self) -> bool:
        return False  # only this server shuts it down

    @property
    def reports_interrupts(self) -> bool:
        return isinstance(self._kernel, ServerKernelManager)  # a site's own class may not

    def open_wire(self, receive: Receive) -> "ZmqWire":
        return ZmqWire(self._kernel, receive, self._log)

    async def is_alive(self) -> bool:
        return bool(await ensure_async(self._kernel.is_alive()))

    def restarted(self) -> None:
        """A kernel that could not bind its ports was given others."""
        if list(self._kernel.ports) != self._ports:
            self._ports = list(self._kernel.ports)
            self._events.close()
            self._events = ZmqEvents(self._kernel, self._listener.on_event, self._log)

    async def aclose(self) -> None:
        self._events.close()


class ZmqEvents:
    """Reads a kernel's events from a tap."""

    def __init__(
        self, kernel: Any, deliver: Callable[[KernelEvent], None], log: Logger, tap: EventTap | None = None
    ) -> None:
        """`deliver` is called in the event loop."""
        self._deliver = deliver
        self._log = log
        self._session = kernel.session.clone()
        self._tap = tap or EventTap(kernel)
        self._tap.read(self._receive)

    def _receive(self, frames: list[bytes]) -> None:
        try:
            _, parts = self._session.feed_identities(frames)
            message = self._session.deserialize(parts)
            if message["msg_type"] != EVENT_TYPE:
                return
            event = read_event(message["content"])
        except (ValueError, TypeError, KeyError, ValidationError) as error:
            self._log.debug("A frame from a kernel was dropped: %s", error)
            return
        self._deliver(event)

    def close(self) -> None:
        self._tap.close()


class ZmqWire:
    """See `Wire`."""

    def __init__(self, kernel: Any, receive: Receive, log: Logger) -> None:
        self._log = log
        self._receive = receive
        self._session = kernel.session.clone()
        # Message ids begin with the session's, which a clone shares: replies would reach other clients' requests.
        self._session.session = uuid.uuid4().hex
        self._streams: dict[str, ZMQStream] = {
            "shell": kernel.connect_shell(),
            "control": kernel.connect_control(),
        }
        for stream in self._streams.values():
            stream.on_recv(self._read)

    def send(self, channel: str, message_type: str, content: dict[str, Any]) -> str:
        message = self._session.msg(message_type, content)
        self._send(self._streams[channel], self._session.serialize(message))
        message_id: str = message["header"]["msg_id"]
        return message_id

    def _send(self, stream: ZMQStream, frames: list[bytes]) -> None:
        """Through the stream, a message leaves in a later turn of the event loop, behind what goes to pages; its
        `flush` asks the socket several times first, which takes longer than making the message."""
        if stream.sending():
            stream.send_multipart(frames)
            return
        try:
            stream.socket.send_multipart(frames, zmq.NOBLOCK)
        except zmq.Again:  # the kernel has not read for so long that the socket's own queue is full
            stream.send_multipart(frames)
        # What came meanwhile may be signalled no more: the socket's descriptor is edge-triggered.
        asyncio.get_running_loop().call_soon(self._look, stream)

    def _look(self, stream: ZMQStream) -> None:
        if not stream.closed():
            stream.flush(zmq.POLLIN)

    def forget(self, message_id: str) -> None:
        """Nothing of a request is kept here."""

    def _read(self, frames: list[bytes]) -> None:
        try:
            _, parts = self._session.feed_identities(frames)
            message = self._session.deserialize(parts)
            message_id = message["parent_header"]["msg_id"]
        except (ValueError, TypeError, KeyError) as error:
            self._log.debug("A reply from a kernel was dropped: %s", error)
            return
        self._receive(message_id, message["content"])

    def close(self) -> None:
        for stream in self._streams.values():
            if not stream.closed():
                stream.on_recv(None)
                stream.close(linger=0)
