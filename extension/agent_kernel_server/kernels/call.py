"""KernelCall carries out one approved call in one process of a kernel, from its deposit to its outcome."""

import asyncio
from logging import Logger

from agent_kernel.errors import KernelGone
from agent_kernel.protocol.kernel import CollectCall, ExecuteCall, InterruptCall
from agent_kernel.protocol.kernel_code import take_code
from agent_kernel.tools.executor import ApprovedCall, Outcome
from agent_kernel_server.kernels.link import KernelLink, RequestFailed, Sent
from agent_kernel_server.kernels.live_outputs import LiveOutputs

COLLECT_SECONDS = 5.0
"""How often the kernel is asked for the outcome, in case the event that announces it was lost."""

INTERRUPT_SECONDS = 2.0
"""How long an interrupted call may take to stop."""

RETRY_SECONDS = 0.05


class KernelCall:
    def __init__(self, call: ApprovedCall, link: KernelLink, live_outputs: LiveOutputs) -> None:
        self._call = call
        self._link = link
        self._live_outputs = live_outputs

    async def deliver(self, run_id: str) -> None:
        """Deposit the call in the kernel and have it claimed on the main thread. Raises `RequestFailed`,
        `KernelGone`."""
        try:
            code, sent = await self._deposit(run_id)
            # A failing cell of the user's aborts what is queued behind it.
            while (await self._link.wait(*sent)).get("status") == "aborted":
                await asyncio.sleep(RETRY_SECONDS)
                sent = self._link.execute(code)
        finally:
            self._live_outputs.collect_now.set()

    async def _deposit(self, run_id: str) -> tuple[str, Sent]:
        """The claiming code, which is queued by the time the call is deposited.

        It is sent together with the deposit, because a round trip costs as much as the rest of the way. It waits a
        moment for the deposit, and leaves a call that awaits alone. In both cases other code follows.
        """
        deposit = ExecuteCall(
            approval_id=self._call.approval_id,
            tool_call_id=self._call.tool_call_id,
            tool_name=self._call.tool_name,
            arguments_json=self._call.arguments_json,
            digest=self._call.digest,
            base=self._call.base,
            place=self._call.place,
            run_id=run_id,
        )
        deposit_sent = self._link.send(deposit)
        code = take_code(self._call.approval_id)
        code_sent = self._link.execute(code)
        try:
            deposited = await self._link.reply(deposit_sent, deposit.reply_type())
        except BaseException:
            self._link.forget(code_sent[0])
            raise
        if not deposited.needs_await and not deposited.late:
            return code, code_sent
        self._link.forget(code_sent[0])
        code = take_code(self._call.approval_id, needs_await=deposited.needs_await)
        return code, self._link.execute(code)

    async def outcome(self, delivery: asyncio.Task[None]) -> Outcome:
        """Wait for the end. Raises `RequestFailed`, `KernelGone`."""
        while True:
            try:
                async with asyncio.timeout(COLLECT_SECONDS):
                    await self._live_outputs.collect_now.wait()
            except TimeoutError:
                await self._link.check_alive()
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
            return Outcome(**collected.outcome.model_dump())
        if delivered and collected.state == "deposited":
            # The claiming code has ended without claiming the call, for example because of an interrupt.
            await self.interrupt()
            return await self._collect(delivered=False)
        if collected.state == "unknown":
            return Outcome("unknown", "The kernel does not know this call any more: nobody can say whether it ran.")
        return None

    async def interrupt(self) -> bool:
        """Only the kernel knows what its main thread runs, so it sends the signal itself, or withdraws the call."""
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
