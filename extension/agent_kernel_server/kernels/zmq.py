"""ZmqTransport talks to a kernel whose ZMQ sockets are open to this process."""

import uuid
from logging import Logger
from typing import Any

from jupyter_core.utils import ensure_async
from jupyter_server.services.kernels.kernelmanager import ServerKernelManager
from pydantic import ValidationError
from zmq.eventloop.zmqstream import ZMQStream

from agent_kernel.execution.link import Receive
from agent_kernel.protocol.kernel_events import EVENT_TYPE, read_event
from agent_kernel_server.kernels.transport import Listener

HEAD_FRAMES = 5
"""How many frames a message has before its content: topic, delimiter, signature, header and parent header."""


class ZmqTransport:
    """See `Transport`."""

    remote = False
    takes_input = True
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
        self._marks = (self._session.session.encode(), EVENT_TYPE.encode())
        self._receive: Receive = lambda _message_id, _content: None
        self._streams: dict[str, ZMQStream] = {}
        """By channel, to the kernel's present process: a socket would send the next one what this has not received."""
        self._subscribe()

    @property
    def is_ending(self) -> bool:
        return bool(self._kernel.shutting_down)

    @property
    def reports_interrupts(self) -> bool:
        return isinstance(self._kernel, ServerKernelManager)  # a site's own class may not

    async def is_alive(self) -> bool:
        return bool(await ensure_async(self._kernel.is_alive()))

    def connect(self, receive: Receive) -> None:
        self._receive = receive
        identity = uuid.uuid4().hex.encode()  # a kernel asks for input by the identity of who sent it the code
        self._streams = {
            "shell": self._kernel.connect_shell(identity=identity),
            "control": self._kernel.connect_control(),
            "stdin": self._kernel.connect_stdin(identity=identity),
        }
        for stream in self._streams.values():
            stream.on_recv(self._on_reply)

    def disconnect(self) -> None:
        for stream in self._streams.values():
            _close(stream)

    def send(self, channel: str, message_type: str, content: dict[str, Any], metadata: dict[str, Any]) -> str:
        message = self._session.msg(message_type, content, metadata=metadata)
        self._session.send(self._streams[channel], message)
        message_id: str = message["header"]["msg_id"]
        return message_id

    def forget(self, message_id: str) -> None:
        """Nothing of a request is kept here."""

    def restarted(self) -> None:
        """A kernel that could not bind its ports was given others."""
        if list(self._kernel.ports) != self._ports:
            self._ports = list(self._kernel.ports)
            _close(self._published)
            self._subscribe()

    async def aclose(self) -> None:
        _close(self._published)

    def _subscribe(self) -> None:
        """What a kernel publishes is read over restarts, because a kernel keeps its ports."""
        self._published: ZMQStream = self._kernel.connect_iopub()
        self._published.on_recv(self._on_published)

    def _on_published(self, frames: list[bytes]) -> None:
        """Read the kernel's events, and what belongs to requests of this session."""
        if not any(mark in frame for frame in frames[:HEAD_FRAMES] for mark in self._marks):
            return  # a cell's own: most of what comes
        try:
            message = self._read(frames)
            parent = message["parent_header"]
            if message["msg_type"] == EVENT_TYPE:
                self._listener.on_event(read_event(message["content"]))
            elif parent.get("session") == self._session.session:
                self._listener.on_output(parent["msg_id"], message["msg_type"], message["content"])
        except (ValueError, TypeError, KeyError, RecursionError, ValidationError) as error:
            self._log.debug("A frame from a kernel was dropped: %s", error)

    def _on_reply(self, frames: list[bytes]) -> None:
        try:
            message = self._read(frames)
            message_id = message["parent_header"]["msg_id"]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            self._log.debug("A reply from a kernel was dropped: %s", error)
            return
        if message["msg_type"] == "input_request":
            self._listener.on_output(message_id, "input_request", message["content"])
        else:
            self._receive(message_id, message["content"])

    def _read(self, frames: list[bytes]) -> dict[str, Any]:
        """A message whose signature is the kernel's. Raises what `Session.deserialize` does."""
        _, parts = self._session.feed_identities(frames)
        message: dict[str, Any] = self._session.deserialize(parts)
        return message


def _close(stream: ZMQStream) -> None:
    if not stream.closed():
        stream.on_recv(None)
        stream.close(linger=0)
