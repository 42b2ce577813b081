"""How the server reaches one kernel. This module has the way by ZMQ; `gateway` has the one through a gateway."""

import uuid
from collections.abc import Callable
from logging import Logger
from typing import Any, Protocol

from jupyter_core.utils import ensure_async
from jupyter_server.services.kernels.kernelmanager import ServerKernelManager
from zmq.eventloop.zmqstream import ZMQStream

from agent_kernel_server.kernels.announcements import Announcements
from agent_kernel_server.kernels.messages import KernelEvent

Receive = Callable[[str, dict[str, Any]], None]
"""Called with a reply: the id of the request that it answers, and its content."""


class Listener(Protocol):
    """Who is told what is heard from a kernel. Called in the event loop."""

    def hear(self, event: KernelEvent) -> None: ...

    def life_ended(self, reason: str, *, restarting: bool) -> None:
        """The kernel's namespace is lost; `restarting`: after a death, by itself."""
        ...

    def out_of_reach(self, reason: str) -> None:
        """Nobody knows what the kernel does, and it may come back as it was."""
        ...

    def gone(self, reason: str) -> None:
        """The kernel is lost for good."""
        ...


class Wire(Protocol):
    """Carries requests to a kernel, and the replies back to one receiver."""

    def send(self, channel: str, message_type: str, content: dict[str, Any]) -> str:
        """Send a request on "shell" or "control"; its id."""
        ...

    def forget(self, message_id: str) -> None:
        """Nobody waits for this reply any more."""
        ...

    def close(self) -> None: ...


class Transport(Protocol):
    @property
    def remote(self) -> bool:
        """Whether the kernel is behind a gateway, so that its environment can't say who serves it."""
        ...

    @property
    def connections(self) -> int:
        """How many of the connections that Jupyter counts for this kernel are not a page's but this reach's."""
        ...

    @property
    def is_ending(self) -> bool:
        """Whether this server is shutting the kernel down, perhaps to start it again."""
        ...

    @property
    def tells_interrupts(self) -> bool:
        """Whether this server hears of each interrupt that somebody asks Jupyter for."""
        ...

    def open_wire(self, receive: Receive) -> Wire: ...

    async def is_alive(self) -> bool: ...

    def restarted(self) -> None:
        """Jupyter has started the kernel again."""
        ...

    async def aclose(self) -> None: ...


class ZmqTransport:
    """A kernel whose sockets are open to this process."""

    remote = False
    connections = 0

    def __init__(self, kernel: Any, listener: Listener, log: Logger) -> None:
        """`kernel`: Jupyter's manager of one kernel."""
        self._kernel = kernel
        self._listener = listener
        self._log = log
        self._ports = list(kernel.ports)
        self._announcements = Announcements(kernel, listener.hear, log)

    @property
    def is_ending(self) -> bool:
        return bool(self._kernel.shutting_down)

    @property
    def tells_interrupts(self) -> bool:
        return isinstance(self._kernel, ServerKernelManager)  # a site's own class may not

    def open_wire(self, receive: Receive) -> "ZmqWire":
        return ZmqWire(self._kernel, receive, self._log)

    async def is_alive(self) -> bool:
        return bool(await ensure_async(self._kernel.is_alive()))

    def restarted(self) -> None:
        """A kernel that could not bind its ports was given others."""
        if list(self._kernel.ports) != self._ports:
            self._ports = list(self._kernel.ports)
            self._announcements.close()
            self._announcements = Announcements(self._kernel, self._listener.hear, self._log)

    async def aclose(self) -> None:
        self._announcements.close()


class ZmqWire:
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
        self._session.send(self._streams[channel], message)
        message_id: str = message["header"]["msg_id"]
        return message_id

    def forget(self, message_id: str) -> None:
        """Nothing: nothing of a request is kept here."""

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
