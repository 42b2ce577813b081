"""Has this kernel run deposited calls between the user's cells, by sending itself what the server would send.

A queued message keeps the order of cells and calls, which a callback on the event loop would not.
"""

import json
from typing import Any

from agent_kernel.errors import AgentKernelError


class OwnShell:
    """A client of this kernel's shell channel. All methods are for one thread, the brain's."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._client: Any = None

    def queue_take(self, tool_call_id: str, needs_await: bool) -> None:
        """Queue code that claims the call on the main thread, and leaves no name behind."""
        name = "take_async" if needs_await else "take"
        code = f'__import__("agent_kernel.notebook", fromlist=["{name}"]).{name}({json.dumps(tool_call_id)})'
        content = {
            "code": f"await {code}" if needs_await else code,
            "silent": True,
            "store_history": False,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": False,
        }
        client = self._connect()
        client.shell_channel.send(client.session.msg("execute_request", content))

    def was_aborted(self) -> bool:
        """Whether a queued take came back undone: a failing cell of the user's aborts all that is queued behind it."""
        aborted = False
        while self._client is not None and self._client.shell_channel.msg_ready():
            reply = self._client.shell_channel.get_msg(timeout=0)
            aborted = aborted or reply["content"].get("status") == "aborted"
        return aborted

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
