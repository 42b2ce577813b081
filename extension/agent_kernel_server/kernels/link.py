"""KernelLink sends requests to one life of a kernel, and ends them all when that life ends."""

import asyncio
import uuid
from collections.abc import Mapping
from logging import Logger
from typing import Any

from jupyter_core.utils import ensure_async
from zmq.eventloop.zmqstream import ZMQStream

from agent_kernel.errors import AgentKernelError, KernelGone
from agent_kernel_server.kernels.messages import REQUEST_TYPE

LIVENESS_SECONDS = 5.0
"""How often somebody who waits for a kernel asks whether its process still lives."""

INSTALL_CODE = '__import__("agent_kernel.notebook", fromlist=["install"]).install()'


class RequestRefused(AgentKernelError):
    """The kernel answered a request with an error."""


class KernelLink:
    """A client of one kernel, from its start to its death or restart: then every waiter gets `KernelGone`.

    Requests go on the control channel, which answers while the main shell is busy. The shell channel is only for code
    that must run on the main thread.
    """

    def __init__(self, kernel: Any, log: Logger) -> None:
        self._kernel = kernel
        self._log = log
        self._session = kernel.session.clone()
        # Message ids begin with the session's, which a clone shares: replies would reach other clients' requests.
        self._session.session = uuid.uuid4().hex
        self._waiters: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._gone: KernelGone | None = None
        self._installing = asyncio.Lock()
        self.installed = False
        """True once the kernel is known to answer this link's requests."""
        self._streams: dict[str, ZMQStream] = {
            "shell": kernel.connect_shell(),
            "control": kernel.connect_control(),
        }
        for stream in self._streams.values():
            stream.on_recv(self._receive)

    @property
    def gone(self) -> KernelGone | None:
        return self._gone

    async def control(self, op: str, fields: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Ask the kernel's hands. Raises `RequestRefused`, or `KernelGone`; it waits as long as the kernel lives."""
        message_id, reply = self.send("control", REQUEST_TYPE, {"op": op, **(fields or {})})
        content = await self.wait(message_id, reply)
        if content.get("ok") is not True:
            raise RequestRefused(str(content.get("error", f"The kernel refused {op!r}.")))
        return content

    def send(
        self, channel: str, message_type: str, content: dict[str, Any]
    ) -> tuple[str, asyncio.Future[dict[str, Any]]]:
        """Send a request. The future resolves with the content of its reply. Raises `KernelGone`."""
        if self._gone is not None:
            raise self._gone
        message = self._session.msg(message_type, content)
        message_id: str = message["header"]["msg_id"]
        reply: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiters[message_id] = reply
        self._session.send(self._streams[channel], message)
        return message_id, reply

    async def wait(self, message_id: str, reply: asyncio.Future[dict[str, Any]]) -> dict[str, Any]:
        """Wait for a reply, and now and then for a sign of life. Raises `KernelGone`."""
        try:
            while True:
                done, _ = await asyncio.wait({reply}, timeout=LIVENESS_SECONDS)
                if done:
                    return reply.result()
                await self.check_alive()
        finally:
            self.forget(message_id)

    def forget(self, message_id: str) -> None:
        """Nobody waits for this reply any more."""
        reply = self._waiters.pop(message_id, None)
        if reply is not None:
            reply.cancel()

    def execute(self, code: str) -> tuple[str, asyncio.Future[dict[str, Any]]]:
        """Queue code behind the user's cells: silent, so that prompt numbers and `_` stay theirs."""
        return self.send(
            "shell",
            "execute_request",
            {
                "code": code,
                "silent": True,
                "store_history": False,
                "user_expressions": {},
                "allow_stdin": False,
                "stop_on_error": False,
            },
        )

    async def ensure_installed(self) -> None:
        """Put the control handler into a kernel where nobody loaded the extension. Raises `RequestRefused`."""
        async with self._installing:
            while not self.installed:
                content = await self.wait(*self.execute(INSTALL_CODE))
                if content.get("status") == "error":
                    raise RequestRefused(
                        f"Agent Kernel can't be imported in this kernel: {content.get('evalue', 'no reason given')}"
                    )
                self.installed = content.get("status") == "ok"

    async def check_alive(self) -> None:
        """Raises `KernelGone` where the process has ended, also for kernels that are not restarted automatically."""
        if not await ensure_async(self._kernel.is_alive()):
            self.fail(KernelGone("The kernel died."))
        if self._gone is not None:
            raise self._gone

    def _receive(self, frames: list[bytes]) -> None:
        try:
            _, parts = self._session.feed_identities(frames)
            message = self._session.deserialize(parts)
            message_id = message["parent_header"]["msg_id"]
        except (ValueError, TypeError, KeyError) as error:
            self._log.debug("A reply from a kernel was dropped: %s", error)
            return
        reply = self._waiters.get(message_id)
        if reply is not None and not reply.done():
            reply.set_result(message["content"])

    def fail(self, error: KernelGone) -> None:
        """This life of the kernel is over: every waiter gets `error`, and the sockets close."""
        if self._gone is not None:
            return
        self._gone = error
        for reply in self._waiters.values():
            if not reply.done():
                reply.set_exception(error)
                reply.exception()  # somebody may have stopped waiting
        for stream in self._streams.values():
            if not stream.closed():
                stream.on_recv(None)
                stream.close(linger=0)
