"""`KernelConnection`, the way to one kernel in the manner of `jupyter_client`, which hosts implement; and `KernelLink`,
which sends requests over it to one process of the kernel."""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from pydantic import ValidationError

from agent_kernel.errors import AgentKernelError, KernelGone
from agent_kernel.protocol.kernel import (
    CALL_KEY,
    INSTALL_CODE,
    REQUEST_TYPE,
    OfferCall,
    Refused,
    ReplyT,
    Request,
    call_code,
    execute_request,
    read_reply,
)

LIVENESS_SECONDS = 5.0
"""How often the kernel's process is checked while a reply is outstanding."""

SHOWN_ERRORS = 3
REFUSAL_CHARACTERS = 2_000

Receive = Callable[[str, object], None]
"""Called with a reply: the id of the request that it answers, and its content, which is not validated."""

Sent = tuple[str, asyncio.Future[dict[str, Any]]]
"""A request's id, and the content of its reply."""


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


class RequestFailed(AgentKernelError):
    """A request got no reply of its type, though the kernel is there."""


class RequestRefused(RequestFailed):
    """The kernel could not do what was asked, and said why."""


class InvalidReply(RequestFailed):
    """The kernel's reply is not what was asked for: what it has done is not known."""


class Unreachable(KernelGone):
    """The kernel could not be reached for so long that its runs end. It may still be there."""


class KernelLink:
    """A client of one kernel process, from its start to its death or restart: then each waiter gets `KernelGone`.

    Requests go on the control channel, which answers while the main shell is busy. The shell channel is only for calls
    and code that must run on the main thread.
    """

    def __init__(self, connection: KernelConnection) -> None:
        self._connection = connection
        self._replies: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self.gone: KernelGone | None = None
        self._installing = asyncio.Lock()
        self.installed = asyncio.Event()
        """Set once the kernel is known to answer this link's requests."""
        connection.connect(self._receive)

    async def request(self, request: Request[ReplyT], reply_type: type[ReplyT] | None = None) -> ReplyT:
        """Send a request and wait for its reply, as long as the kernel lives. Raises `RequestFailed`, `KernelGone`.

        `reply_type`: a subclass of the request's own, with more checks.
        """
        return await self.reply(self.send(request), reply_type or request.reply_type())

    def send(self, request: Request[Any]) -> Sent:
        """Send a request to the kernel's executor. Raises `KernelGone`."""
        return self._send("control", REQUEST_TYPE, request.model_dump(mode="json"))

    async def reply(self, sent: Sent, reply_type: type[ReplyT]) -> ReplyT:
        """The reply to a request. Raises `RequestFailed`, `KernelGone`."""
        content = await self.wait(*sent)
        try:
            reply = read_reply(content, reply_type)
        except ValidationError as error:
            raise InvalidReply(f"The kernel's reply is not valid: {_summary(error)}") from None
        if isinstance(reply, Refused):
            raise RequestRefused(_one_line(reply.error))
        return reply

    def run(self, call: OfferCall) -> Sent:
        """Queue a call behind the user's cells. The reply comes when it has run. Raises `KernelGone`."""
        asks = call.call.may_ask and self._connection.takes_input
        content = execute_request(call_code(call.call.approval_id)) | {"allow_stdin": asks}
        return self._send("shell", "execute_request", content, {CALL_KEY: call.model_dump(mode="json")})

    def send_line(self, line: str) -> None:
        """Answer the code that waits for a line."""
        if self.gone is None:
            self._connection.send("stdin", "input_reply", {"value": line, "status": "ok"}, {})

    def execute(self, code: str) -> Sent:
        """Queue code behind the user's cells. Raises `KernelGone`."""
        return self._send("shell", "execute_request", execute_request(code))

    def execute_cell(self, code: str, cell_id: str) -> Sent:
        """Run a cell of the notebook as a page does. Raises `KernelGone`."""
        content = execute_request(code) | {"silent": False, "store_history": True, "stop_on_error": True}
        return self._send("shell", "execute_request", content, {"cellId": cell_id})

    def _send(
        self, channel: str, message_type: str, content: dict[str, Any], metadata: dict[str, Any] | None = None
    ) -> Sent:
        """The future resolves with the content of the reply. Raises `KernelGone`."""
        if self.gone is not None:
            raise self.gone
        message_id = self._connection.send(channel, message_type, content, metadata or {})
        reply: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._replies[message_id] = reply
        return message_id, reply

    async def wait(self, message_id: str, reply: asyncio.Future[dict[str, Any]]) -> dict[str, Any]:
        """Wait for a reply, and check now and then that the kernel lives. Raises `KernelGone`."""
        try:
            await self.wait_first((message_id, reply))
            return reply.result()
        finally:
            self.forget(message_id)

    async def wait_first(self, *sent: "Sent | asyncio.Task[Any]") -> None:
        """Wait until one of these has its reply, or has failed or ended. Raises `KernelGone`."""
        replies: list[asyncio.Future[Any]] = [one[1] if isinstance(one, tuple) else one for one in sent]
        while not any(reply.done() for reply in replies):
            done, _ = await asyncio.wait(replies, timeout=LIVENESS_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                await self.check_alive()

    def forget(self, message_id: str) -> None:
        """Stop waiting for a reply."""
        self._connection.forget(message_id)
        reply = self._replies.pop(message_id, None)
        if reply is not None:
            reply.cancel()

    async def ensure_installed(self) -> None:
        """Have the kernel answer requests, unless the extension is loaded. Raises `RequestFailed`, `KernelGone`."""
        if self.installed.is_set():
            return
        async with self._installing:
            installed = asyncio.create_task(self.installed.wait())
            try:
                while not self.installed.is_set():
                    await self._install(installed)
            finally:
                installed.cancel()

    async def _install(self, installed: "asyncio.Task[Any]") -> None:
        """Queue the installing code. Returns early where the kernel is found to be `installed` meanwhile."""
        install = asyncio.create_task(self.wait(*self.execute(INSTALL_CODE)))
        try:
            await asyncio.wait({install, installed}, return_when=asyncio.FIRST_COMPLETED)
            if installed.done():
                return
            content = install.result()
        finally:
            install.cancel()
            await asyncio.gather(install, return_exceptions=True)
        if content.get("status") == "error":
            reason = _one_line(str(content.get("evalue", "no reason given")))
            raise RequestRefused(
                f"Agent Kernel can't be imported in this kernel: {reason.rstrip('.')}. Nothing ran. Install it in the "
                "kernel's environment (`agent-kernel doctor` there says what is missing), and restart the kernel."
            )
        if content.get("status") == "ok":
            self.installed.set()

    async def check_alive(self) -> None:
        """Raises `KernelGone` where the process has ended, also for kernels that are not restarted automatically."""
        if not await self._connection.is_alive():
            self.fail(KernelGone("The kernel died."))
        if self.gone is not None:
            raise self.gone

    def _receive(self, message_id: str, content: object) -> None:
        reply = self._replies.get(message_id)
        if reply is None or reply.done():
            return
        if isinstance(content, dict):
            reply.set_result(content)
        else:
            reply.set_exception(InvalidReply("The kernel's reply is not an object."))

    def fail(self, error: KernelGone) -> None:
        """This process of the kernel has ended: each waiter gets `error`, and the connection to it is closed."""
        if self.gone is not None:
            return
        self.gone = error
        for reply in self._replies.values():
            if not reply.done():
                reply.set_exception(error)
                reply.exception()  # the waiter may have stopped waiting
        self._connection.disconnect()


def _one_line(text: str) -> str:
    """A kernel's words as they may stand in the server's log."""
    return " ".join(text[:REFUSAL_CHARACTERS].split())


def _summary(error: ValidationError) -> str:
    """Where a reply does not fit, without what it says: that may be what a user typed."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in found[:SHOWN_ERRORS])
