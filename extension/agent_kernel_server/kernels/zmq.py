"""ZmqTransport talks to a kernel whose ZMQ sockets are open to this process."""

import uuid
from logging import Logger
from typing import Any

from jupyter_core.utils import ensure_async
from jupyter_server.services.kernels.kernelmanager import ServerKernelManager
from pydantic import ValidationError
from zmq.eventloop.zmqstream import ZMQStream

from agent_kernel.execution.connection import Receive
from agent_kernel.protocol.kernel_events import EVENT_TYPE, read_event
from agent_kernel_server.kernels.transport import Listener

HEAD_FRAMES = 5
"""How many frames a message has before its content: topic, delimiter, signature, header and parent header."""


class ZmqTransport:
    """See `Transport`."""

    remote = False
    connections = 0

    def __init__(self, kernel: Any, listener: Listener, log: Logger) -> None:
        """`kernel`: Jupyter's manager of one kernel."""
        self._kernel = kernel
        self._listener = listener
        self._log = log
        self._ports = list(kernel.ports)
        # Message ids begin with the session's, which a clone shares: replies would reach other clients' requests.
        self._session = kernel.session.clone()
        self._session.session = uuid.uuid4().hex
        self._published = ZmqPublished(kernel, self._session, listener, log)

    @property
    def is_ending(self) -> bool:
        return bool(self._kernel.shutting_down)

    async def ends_soon(self) -> bool:
        return False  # only this server shuts it down

    @property
    def reports_interrupts(self) -> bool:
        return isinstance(self._kernel, ServerKernelManager)  # a site's own class may not

    def open_wire(self, receive: Receive) -> "ZmqWire":
        return ZmqWire(self._kernel, self._session, receive, self._listener, self._log)

    async def is_alive(self) -> bool:
        return bool(await ensure_async(self._kernel.is_alive()))

    def restarted(self) -> None:
        """A kernel that could not bind its ports was given others."""
        if list(self._kernel.ports) != self._ports:
            self._ports = list(self._kernel.ports)
            self._published.close()
            self._published = ZmqPublished(self._kernel, self._session, self._listener, self._log)

    async def aclose(self) -> None:
        self._published.close()


class ZmqPublished:
    """Reads what a kernel publishes: its events, and what belongs to requests of this session.

    It stays connected over restarts, because a kernel keeps its ports."""

    def __init__(self, kernel: Any, session: Any, listener: Listener, log: Logger) -> None:
        self._listener = listener
        self._log = log
        self._session = session
        self._marks = (session.session.encode(), EVENT_TYPE.encode())
        self._stream: ZMQStream = kernel.connect_iopub()
        self._stream.on_recv(self._receive)

    def _receive(self, frames: list[bytes]) -> None:
        if not any(mark in frame for frame in frames[:HEAD_FRAMES] for mark in self._marks):
            return  # a cell's own: most of what comes
        try:
            _, parts = self._session.feed_identities(frames)
            message = self._session.deserialize(parts)
            parent = message["parent_header"]
            if message["msg_type"] == EVENT_TYPE:
                self._listener.on_event(read_event(message["content"]))
            elif parent.get("session") == self._session.session:
                self._listener.on_output(parent["msg_id"], message["msg_type"], message["content"])
        except (ValueError, TypeError, KeyError, RecursionError, ValidationError) as error:
            self._log.debug("A frame from a kernel was dropped: %s", error)

    def close(self) -> None:
        _close(self._stream)


class ZmqWire:
    """See `Wire`."""

    takes_input = True

    def __init__(self, kernel: Any, session: Any, receive: Receive, listener: Listener, log: Logger) -> None:
        self._log = log
        self._receive = receive
        self._listener = listener
        self._session = session
        identity = uuid.uuid4().hex.encode()  # a kernel asks for input by the identity of who sent it the code
        self._streams: dict[str, ZMQStream] = {
            "shell": kernel.connect_shell(identity=identity),
            "control": kernel.connect_control(),
            "stdin": kernel.connect_stdin(identity=identity),
        }
        for stream in self._streams.values():
            stream.on_recv(self._read)

    def send(self, channel: str, message_type: str, content: dict[str, Any], metadata: dict[str, Any]) -> str:
        message = self._session.msg(message_type, content, metadata=metadata)
        self._session.send(self._streams[channel], message)
        message_id: str = message["header"]["msg_id"]
        return message_id

    def forget(self, message_id: str) -> None:
        """Nothing of a request is kept here."""

    def _read(self, frames: list[bytes]) -> None:
        try:
            _, parts = self._session.feed_identities(frames)
            message = self._session.deserialize(parts)
            message_id = message["parent_header"]["msg_id"]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            self._log.debug("A reply from a kernel was dropped: %s", error)
            return
        if message["msg_type"] == "input_request":
            self._listener.on_output(message_id, "input_request", message["content"])
        else:
            self._receive(message_id, message["content"])

    def close(self) -> None:
        for stream in self._streams.values():
            _close(stream)


def _close(stream: ZMQStream) -> None:
    if not stream.closed():
        stream.on_recv(None)
        stream.close(linger=0)
