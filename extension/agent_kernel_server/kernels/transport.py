"""The server's connection to one kernel: `zmq` implements it over ZMQ sockets, `gateway` over a gateway's WebSocket."""

from typing import Any, Protocol

from agent_kernel.execution.link import KernelConnection
from agent_kernel.protocol.kernel_events import KernelEvent


class Listener(Protocol):
    """Gets what a transport finds out about a kernel. Called in the event loop."""

    def on_event(self, event: KernelEvent) -> None: ...

    def on_output(self, message_id: str, kind: str, content: dict[str, Any]) -> None:
        """The kernel has published something for a request of this server's."""
        ...

    def on_restart(self, reason: str, *, after_death: bool) -> None:
        """The kernel's namespace is lost. `after_death`: the kernel died, and is restarted automatically."""
        ...

    def on_unreachable(self, reason: str) -> None:
        """The state of the kernel is not known, and it may come back as it was."""
        ...

    def on_gone(self, reason: str) -> None:
        """The kernel is lost for good."""
        ...


class Transport(KernelConnection, Protocol):
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
    def reports_interrupts(self) -> bool:
        """Whether this server learns of each interrupt that Jupyter is asked for."""
        ...

    def restarted(self) -> None:
        """Jupyter has started the kernel again."""
        ...

    async def aclose(self) -> None: ...
