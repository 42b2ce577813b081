"""The embedded host's connection to the kernel that it is in: over the kernel's own connection file, as any client's.

Plain IPython has no kernel to connect to. There a cell always waits for its run, and IPython captures the outputs.
"""

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Coroutine
from typing import Any

from IPython.utils.capture import capture_output
from pydantic import ValidationError

from agent_kernel.errors import AgentKernelError
from agent_kernel.execution.kernel_executor import KernelCalls
from agent_kernel.execution.link import Receive
from agent_kernel.notebook.execution.approved_calls import Entry
from agent_kernel.notebook.kernel.requests import answer, install
from agent_kernel.notebook.kernel.state import KernelState
from agent_kernel.protocol.kernel import REQUEST_TYPE
from agent_kernel.protocol.kernel_events import EVENT_TYPE, CallEnded, read_event
from agent_kernel.runtime.tasks import TaskOwner

SUBSCRIBE_SECONDS = 0.1
"""How long the first message of the kernel is waited for, before it is asked for another one."""


class _InThisProcess:
    """For one event loop, the runtime's."""

    takes_input = False

    def __init__(self, calls: KernelCalls, tasks: TaskOwner) -> None:
        self._calls = calls
        self._tasks = tasks
        self._receive: Receive = lambda _message_id, _content: None

    def connect(self, receive: Receive) -> None:
        self._receive = receive

    def forget(self, message_id: str) -> None:
        """Nothing of a request is kept here."""

    async def is_alive(self) -> bool:
        return True

    def disconnect(self) -> None:
        """There is nothing to close."""


class OwnConnection(_InThisProcess):
    """Implements `KernelConnection`."""

    def __init__(self, calls: KernelCalls, tasks: TaskOwner) -> None:
        super().__init__(calls, tasks)
        self._client: Any = None
        self._received_one = asyncio.Event()

    async def open(self) -> None:
        """Returns once what the kernel publishes is received. Raises `AgentKernelError`."""
        from ipykernel.connect import get_connection_file
        from jupyter_client.asynchronous.client import AsyncKernelClient

        install()
        try:
            client = AsyncKernelClient(connection_file=get_connection_file())
            client.load_connection_file()
        except (OSError, RuntimeError) as error:
            raise AgentKernelError(
                f"This kernel can't reach itself: {error}. Nothing ran. Restart the kernel, and run the cell again."
            ) from error
        client.start_channels(stdin=False, hb=False)
        self._client = client
        for channel in (client.shell_channel, client.control_channel):
            self._tasks.spawn(self._read(channel, self._on_reply), "replies of this kernel")
        self._tasks.spawn(self._read(client.iopub_channel, self._on_published), "outputs of this kernel")
        while not self._received_one.is_set():
            self.send("control", "kernel_info_request", {}, {})
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SUBSCRIBE_SECONDS):
                    await self._received_one.wait()

    async def _read(self, channel: Any, take: Callable[[dict[str, Any]], None]) -> None:
        while True:
            take(await channel.get_msg())

    def _on_reply(self, message: dict[str, Any]) -> None:
        self._receive(message["parent_header"].get("msg_id", ""), message["content"])

    def _on_published(self, message: dict[str, Any]) -> None:
        self._received_one.set()
        parent = message["parent_header"]
        if message["msg_type"] == EVENT_TYPE:
            with contextlib.suppress(ValidationError):
                event = read_event(message["content"])
                if isinstance(event, CallEnded):
                    self._calls.on_ended(event.approval_id, event.end)
        elif parent.get("session") == self._client.session.session:
            self._calls.on_output(parent["msg_id"], message["msg_type"], message["content"])

    def send(self, channel: str, message_type: str, content: dict[str, Any], metadata: dict[str, Any]) -> str:
        message = self._client.session.msg(message_type, content, metadata=metadata)
        to = self._client.shell_channel if channel == "shell" else self._client.control_channel
        # Not `to.send`: it goes around zmq.asyncio, which then misses a reply that comes in that moment.
        to.socket.send_multipart(self._client.session.serialize(message))
        message_id: str = message["header"]["msg_id"]
        return message_id

    def disconnect(self) -> None:
        if self._client is not None:
            self._client.stop_channels()


class PlainConnection(_InThisProcess):
    """As `OwnConnection`, for IPython without a kernel. What is queued for the main thread is never run but by a cell
    that waits."""

    def __init__(self, calls: KernelCalls, tasks: TaskOwner, state: KernelState) -> None:
        super().__init__(calls, tasks)
        self._state = state
        self._loop = asyncio.get_running_loop()

    async def open(self) -> None:
        self._state.runner.capture = self._captured
        self._state.calls.on_ended = self._on_ended

    def _on_ended(self, entry: Entry) -> None:
        self._loop.call_soon_threadsafe(self._calls.on_ended, entry.call.approval_id, entry.end)

    @contextlib.contextmanager
    def _captured(self, entry: Entry, errors: list[dict[str, Any]]) -> Any:
        """Capture what a call puts out. `errors` are those that it has shown."""
        with capture_output() as captured:
            yield
        messages: list[tuple[str, dict[str, Any]]] = [
            ("stream", {"name": "stdout", "text": captured.stdout}),
            ("stream", {"name": "stderr", "text": captured.stderr}),
            *(("display_data", {"data": one.data, "metadata": one.metadata}) for one in captured.outputs),
            *(("error", error) for error in errors),
        ]
        for kind, content in messages:
            self._loop.call_soon_threadsafe(self._calls.on_output, entry.message_id, kind, content)

    def send(self, channel: str, message_type: str, content: dict[str, Any], _metadata: dict[str, Any]) -> str:
        message_id = uuid.uuid4().hex
        if channel == "control" and message_type == REQUEST_TYPE:
            self._tasks.spawn(self._reply(message_id, answer(content, self._state)), "reply of this process")
        return message_id

    async def _reply(self, message_id: str, work: Coroutine[Any, Any, dict[str, Any]]) -> None:
        self._receive(message_id, await work)
