"""KernelCall carries out one approved call in one process of a kernel, from its deposit to its outcome."""

import asyncio
from logging import Logger

from agent_kernel.errors import KernelGone
from agent_kernel.protocol.calls import ApprovedCall, Outcome
from agent_kernel.protocol.kernel import CollectCall, Deposited, ExecuteCall, InterruptCall
from agent_kernel.protocol.kernel_code import take_code
from agent_kernel_server.kernels.link import KernelLink, RequestFailed, Sent
from agent_kernel_server.kernels.live_outputs import LiveOutputs

COLLECT_SECONDS = 5.0
"""How often the kernel is asked for the outcome, in case the event that announces it was lost."""

INTERRUPT_SECONDS = 2.0
"""How long an interrupted call may take to stop."""

RETRY_SECONDS = 0.05

ALONE_SECONDS = 0.05
"""How long a call that was sent to the main thread alone may take before it is deposited by a request too, in case the
kernel is busy after all."""

EVENT_SECONDS = 0.05
"""How much later than the main thread's reply the events of the call's outputs may come, and that of its end if the
reply does not have it. They are sent by two threads."""


class KernelCall:
    """A call goes to the kernel's main thread, which deposits and claims it. Where the kernel is not idle, a request
    deposits it as well, because a cell that waits for the run holds up the main thread, and claims the call. Deposits
    are idempotent."""

    def __init__(
        self, call: ApprovedCall, run_id: str, link: KernelLink, live_outputs: LiveOutputs, received: tuple[str, ...]
    ) -> None:
        """`received`: other calls, whose outcomes have come."""
        self._call = call
        self._link = link
        self._live_outputs = live_outputs
        self._request = ExecuteCall(call=call, run_id=run_id, received=received)
        self._queued: Sent
        """The message that has the main thread run the call."""
        self._deposited: Sent | None = None
        """The request that deposits the call, once it is sent."""
        self.outcome_was_sent = False
        """Whether the outcome came with a reply or an event, so that it was not collected."""

    def send(self) -> None:
        """Send the call to the kernel. Raises `KernelGone`."""
        if not self._link.is_idle:
            self._deposit()
        self._queued = self._link.run(self._request)

    async def deliver(self) -> None:
        """Have the call that was sent claimed on the main thread. Raises `RequestFailed`, `KernelGone`."""
        try:
            deposited = await self._delivered()
            if not deposited.needs_await:
                if deposited.end is not None:
                    self._live_outputs.end_soon(deposited.end.outcome, deposited.end.outputs)
                await asyncio.sleep(EVENT_SECONDS)
                return
            code = take_code(self._call.approval_id, needs_await=True)
            sent = self._link.execute(code)
            # A failing cell of the user's aborts what is queued behind it.
            while (await self._link.wait(*sent)).get("status") == "aborted":
                await asyncio.sleep(RETRY_SECONDS)
                sent = self._link.execute(code)
        finally:
            self._live_outputs.collect_now.set()

    async def _delivered(self) -> Deposited:
        """The main thread's reply when it is done with the call; before that, any reply which says that the call is
        left for code that awaits."""
        reply_type = self._request.reply_type()
        if self._deposited is None:
            await asyncio.wait({self._queued[1]}, timeout=ALONE_SECONDS)
        if not self._queued[1].done():
            deposited = self._deposit()
            # Either thread of the kernel may be held up, and the main one may have deposited the call.
            await self._link.wait_first(deposited, self._queued)
            if deposited[1].done() and (reply := await self._link.reply(deposited, reply_type)).needs_await:
                return reply
        return await self._link.reply(self._queued, reply_type)

    def _deposit(self) -> Sent:
        if self._deposited is None:
            self._deposited = self._link.send(self._request)
        return self._deposited

    def close(self) -> None:
        """No reply is waited for any more."""
        self._link.forget(self._queued[0])
        if self._deposited is not None:
            self._link.forget(self._deposited[0])

    async def outcome(self, delivery: asyncio.Task[None]) -> Outcome:
        """Wait for the end. Raises `RequestFailed`, `KernelGone`."""
        while True:
            try:
                async with asyncio.timeout(COLLECT_SECONDS):
                    await self._live_outputs.collect_now.wait()
            except TimeoutError:
                await self._link.check_alive()
            if (sent := self._live_outputs.outcome) is not None:
                self.outcome_was_sent = True
                return sent
            delivered = delivery.done()
            if delivered:
                delivery.result()
            self._live_outputs.collect_now.clear()
            outcome = await self._collect(delivered)
            if outcome is not None:
                return outcome

    async def _collect(self, delivered: bool) -> Outcome | None:
        first = self._live_outputs.next_index
        collected = await self._link.request(CollectCall(approval_id=self._call.approval_id, after_index=first))
        self._live_outputs.fill(first, collected.outputs)
        if collected.outcome is not None:
            return collected.outcome
        if delivered and collected.state == "deposited":
            # The main thread is done with the call, and has not claimed it, for example because of an interrupt.
            await self.interrupt()
            return await self._collect(delivered=False)
        if collected.state == "unknown":
            return Outcome("unknown", "The kernel does not know this call any more: nobody can say whether it ran.")
        return None

    async def interrupt(self) -> bool:
        """Only the kernel knows what its main thread runs, so it sends the signal itself, or withdraws the call."""
        self._deposit()  # else what is under way could still begin it
        return (await self._link.request(InterruptCall(approval_id=self._call.approval_id))).sent

    async def stop(self, log: Logger) -> None:
        """Interrupt a cancelled call and wait a moment for its end, so that the next call does not overlap with it."""
        try:
            async with asyncio.timeout(INTERRUPT_SECONDS):
                while await self.interrupt():
                    self._live_outputs.collect_now.clear()
                    if await self._collect(delivered=False) is not None:
                        return
                    await self._live_outputs.collect_now.wait()
        except (TimeoutError, KernelGone, RequestFailed) as error:
            log.debug("The cancelled call %s was not seen to end: %s", self._call.tool_call_id, error)
