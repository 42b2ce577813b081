"""The server's connection to one kernel: `zmq` implements it over ZMQ sockets, `gateway` over a gateway's WebSocket."""

from collections.abc import Callable
from typing import Any, Protocol

from agent_kernel.protocol.kernel_questions import KernelEvent

Receive = Callable[[str, object], None]
"""Called with a reply: the id of the request that it answers, and its content, which is not validated."""


class Listener(Protocol):
    """Gets what a transport finds out about a kernel. Called in the event loop."""

    def on_event(self, event: KernelEvent) -> None: ...

    def on_restart(self, reason: str, *, after_death: bool) -> None:
        """The kernel's namespace is lost. `after_death`: the kernel died, and is restarted automatically."""
        ...

    def on_unreachable(self, reason: str) -> None:
        """The state of the kernel is not known, and it may come back as it was."""
        ...

    def on_gone(self, reason: str) -> None:
        """The kernel is lost for good."""
        ...


class Wire(Protocol):
    """Carries requests to a kernel, and the replies back to one receiver."""

    def send(self, channel: str, message_type: str, content: dict[str, Any]) -> str:
        """Send a request on "shell" or "control"; its id."""
        ...

    def forget(self, message_id: str) -> None:
        """The reply to this request is no longer wanted."""
        ...

    def close(self) -> None: ...


class Transport(Protocol):
    @property
    def remote(self) -> bool:
        """Whether the kernel is behind a gateway, so that its environment can't name the server that serves it."""
        ...

    @property
    def connections(self) -> int:
        """How many of the connections that Jupyter counts for this kernel are this transport's, and not a page's."""
        ...

    @property
    def is_ending(self) -> bool:
        """Whether this server is shutting the kernel down, perhaps to start it again."""
        ...

    @property
    def is_idle(self) -> bool:
        """Whether the kernel's main thread is known to run nothing. It may have begun something since."""
        ...

    async def ends_soon(self) -> bool:
        """Whether the kernel is being shut down by somebody else. Waits some seconds for a sign of it."""
        ...

    @property
    def reports_interrupts(self) -> bool:
        """Whether this server learns of each interrupt that Jupyter is asked for."""
        ...

    def open_wire(self, receive: Receive) -> Wire: ...

    async def is_alive(self) -> bool: ...

    def restarted(self) -> None:
        """Jupyter has started the kernel again."""
        ...

    async def aclose(self) -> None: ...
