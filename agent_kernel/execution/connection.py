"""`KernelConnection`: the way to one kernel, in the manner of `jupyter_client`. Hosts implement it."""

from collections.abc import Callable
from typing import Any, Protocol

Receive = Callable[[str, object], None]
"""Called with a reply: the id of the request that it answers, and its content, which is not validated."""


class KernelConnection(Protocol):
    """What the kernel publishes for such requests goes to `KernelCalls.on_output`, its events to `on_ended`."""

    takes_input: bool
    """Whether code can ask for lines by it. What it asks goes to `KernelCalls.on_output` as `input_request`, and the
    line is sent on "stdin"."""

    def connect(self, receive: Receive) -> None:
        """To a new process of the kernel, whose replies go to `receive`."""
        ...

    def send(self, channel: str, message_type: str, content: dict[str, Any], metadata: dict[str, Any]) -> str:
        """Send a message on "shell", "control" or "stdin"; its id."""
        ...

    def forget(self, message_id: str) -> None:
        """The reply to this request is no longer wanted."""
        ...

    def disconnect(self) -> None:
        """From that process. What it has not received is not sent to the next one."""
        ...

    async def is_alive(self) -> bool: ...
