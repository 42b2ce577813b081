"""A client of this kernel's own shell channel. The embedded host runs calls between the user's cells with it.

A queued message keeps the order of cells and calls, which a callback on the event loop would not.
"""

from typing import Any

from agent_kernel.errors import AgentKernelError
from agent_kernel.protocol.kernel_code import execute_request, take_code


class SelfClient:
    """All methods are for one thread, the runtime's. They raise `AgentKernelError` where no connection can be made."""

    def __init__(self) -> None:
        self._client: Any = None
        self._aborted = False

    def queue_take(self, approval_id: str, needs_await: bool) -> None:
        """Queue code that claims the call on the main thread."""
        self._send("execute_request", execute_request(take_code(approval_id, needs_await=needs_await)))

    def was_aborted(self) -> bool:
        """Whether queued code was aborted since the last call: a failing cell of the user's aborts all that is queued
        behind it."""
        self._read()
        aborted, self._aborted = self._aborted, False
        return aborted

    def _send(self, message_type: str, content: dict[str, Any]) -> None:
        client = self._connect()
        client.shell_channel.send(client.session.msg(message_type, content))

    def _read(self) -> None:
        while self._client is not None and self._client.shell_channel.msg_ready():
            reply = self._client.shell_channel.get_msg(timeout=0)
            self._aborted = self._aborted or reply["content"].get("status") == "aborted"

    def close(self) -> None:
        if self._client is not None:
            self._client.stop_channels()
            self._client = None

    def _connect(self) -> Any:
        if self._client is None:
            from ipykernel.connect import get_connection_file
            from jupyter_client.blocking.client import BlockingKernelClient

            try:
                client = BlockingKernelClient(connection_file=get_connection_file())
                client.load_connection_file()
            except (OSError, RuntimeError) as error:
                raise AgentKernelError(f"This kernel can't reach itself: {error}") from error
            self._client = client
        return self._client
