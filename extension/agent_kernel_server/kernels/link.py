"""KernelLink sends requests to one life of a kernel, and ends them all when that life ends."""

import asyncio
from collections.abc import Mapping
from typing import Any

from agent_kernel.errors import AgentKernelError, KernelGone
from agent_kernel_server.kernels.messages import REQUEST_TYPE
from agent_kernel_server.kernels.transport import Transport

LIVENESS_SECONDS = 5.0
"""How often somebody who waits for a kernel asks whether its process still lives."""

INSTALL_CODE = '__import__("agent_kernel.notebook", fromlist=["install"]).install()'

Sent = tuple[str, asyncio.Future[dict[str, Any]]]
"""A request's id, and the content of its reply."""


class RequestRefused(AgentKernelError):
    """The kernel answered a request with an error."""


class Unreachable(KernelGone):
    """Nobody has heard of the kernel for so long that its runs end; it may still be there."""


class KernelLink:
    """A client of one kernel, from its start to its death or restart: then every waiter gets `KernelGone`.

    Requests go on the control channel, which answers while the main shell is busy. The shell channel is only for code
    that must run on the main thread.
    """

    def __init__(self, reach: Transport) -> None:
        self._reach = reach
        self._waiters: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._gone: KernelGone | None = None
        self._installing = asyncio.Lock()
        self.installed = asyncio.Event()
        """Set once the kernel is known to answer this link's requests."""
        self._wire = reach.open_wire(self._receive)

    @property
    def gone(self) -> KernelGone | None:
        return self._gone

    async def control(self, op: str, fields: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Ask the kernel's executor. Raises `RequestRefused`, or `KernelGone`; it waits as long as the kernel lives."""
        return await self.answer(self.ask(op, fields))

    def ask(self, op: str, fields: Mapping[str, Any] | None = None) -> Sent:
        """Send a request to the kernel's executor, for `answer`. Raises `KernelGone`."""
        return self.send("control", REQUEST_TYPE, {"op": op, **(fields or {})})

    async def answer(self, request: Sent) -> dict[str, Any]:
        """The answer to a request. Raises `RequestRefused`, or `KernelGone`."""
        content = await self.wait(*request)
        if content.get("ok") is not True:
            raise RequestRefused(str(content.get("error", "The kernel refused a request.")))
        return content

    def send(self, channel: str, message_type: str, content: dict[str, Any]) -> Sent:
        """Send a request. The future resolves with the content of its reply. Raises `KernelGone`."""
        if self._gone is not None:
            raise self._gone
        message_id = self._wire.send(channel, message_type, content)
        reply: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiters[message_id] = reply
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
        self._wire.forget(message_id)
        reply = self._waiters.pop(message_id, None)
        if reply is not None:
            reply.cancel()

    def execute(self, code: str) -> Sent:
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
        if self.installed.is_set():
            return
        async with self._installing:
            heard = asyncio.create_task(self.installed.wait())
            try:
                while not self.installed.is_set():
                    await self._install(heard)
            finally:
                heard.cancel()

    async def _install(self, heard: "asyncio.Task[Any]") -> None:
        """Queue the installing code; a kernel that is `heard` meanwhile has the handler already."""
        install = asyncio.create_task(self.wait(*self.execute(INSTALL_CODE)))
        try:
            await asyncio.wait({install, heard}, return_when=asyncio.FIRST_COMPLETED)
            if heard.done():
                return
            content = install.result()
        finally:
            install.cancel()
            await asyncio.gather(install, return_exceptions=True)
        if content.get("status") == "error":
            raise RequestRefused(
                f"Agent Kernel can't be imported in this kernel: {content.get('evalue', 'no reason given')}"
            )
        if content.get("status") == "ok":
            self.installed.set()

    async def check_alive(self) -> None:
        """Raises `KernelGone` where the process has ended, also for kernels that are not restarted automatically."""
        if not await self._reach.is_alive():
            self.fail(KernelGone("The kernel died."))
        if self._gone is not None:
            raise self._gone

    def _receive(self, message_id: str, content: dict[str, Any]) -> None:
        reply = self._waiters.get(message_id)
        if reply is not None and not reply.done():
            reply.set_result(content)

    def fail(self, error: KernelGone) -> None:
        """This life of the kernel is over: every waiter gets `error`, and the wire is closed."""
        if self._gone is not None:
            return
        self._gone = error
        for reply in self._waiters.values():
            if not reply.done():
                reply.set_exception(error)
                reply.exception()  # somebody may have stopped waiting
        self._wire.close()
