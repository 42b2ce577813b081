"""KernelCall carries out one approved call in one process of a kernel, from its deposit to its outcome."""

import asyncio
import re
from contextlib import suppress
from logging import Logger

from agent_kernel.errors import KernelGone
from agent_kernel.protocol.kernel import CollectCall, ExecuteCall, InterruptCall
from agent_kernel.protocol.kernel_code import take_code
from agent_kernel.protocol.tools import ApprovedCall, Outcome
from agent_kernel_server.kernels.link import KernelLink, RequestFailed, Sent
from agent_kernel_server.kernels.live_outputs import LiveOutputs

COLLECT_SECONDS = 5.0
"""How often the kernel is asked for the outcome, in case the event that announces it was lost."""

INTERRUPT_SECONDS = 2.0
"""How long an interrupted call may take to stop."""

RETRY_SECONDS = 0.05


ALONE_SECONDS = 0.05
"""How long the claiming code may take before the call is deposited by a request too, in case the kernel is busy after
all."""

MOST_CARRIED = 16_384
"""Characters of a deposit that goes with the code, which IPython keeps for tracebacks."""

_MAY_AWAIT = re.compile(r"await|async")


class KernelCall:
    """A call whose code is for an idle kernel is sent as one message: code that deposits the call itself and claims it.
    To any other kernel the deposit goes as a request of its own, because a cell that waits for the run holds up the
    code, and claims the call. Deposits are idempotent."""

    def __init__(
        self, call: ApprovedCall, run_id: str, link: KernelLink, live_outputs: LiveOutputs, received: tuple[str, ...]
    ) -> None:
        """`received`: other calls, whose outcomes have come."""
        self._call = call
        self._link = link
        self._live_outputs = live_outputs
        self._deposit = ExecuteCall(call=call, run_id=run_id, received=received)
        self._deposited: Sent | None = None
        """The request that deposits the call, once it is sent."""
        self._code = take_code(call.approval_id)
        self.outcome_was_sent = False
        """Whether the outcome came with an event, so that it was not collected."""

    def send(self) -> None:
        """Send the call to the kernel. Raises `KernelGone`."""
        if self._goes_with_code():
            self._code_sent = self._link.execute(take_code(self._call.approval_id, deposit=self._deposit))
            return
        # Together, because a round trip costs as much as the rest of the way. The code waits a moment for the deposit.
        self._deposited = self._link.send(self._deposit)
        self._code_sent = self._link.execute(self._code)

    def _goes_with_code(self) -> bool:
        call = self._call
        return (
            self._link.is_idle
            and call.tool_name == "run_python"
            and len(call.arguments_json) <= MOST_CARRIED
            and not _MAY_AWAIT.search(call.arguments_json)  # such code needs another kind of claim
        )

    async def deliver(self) -> None:
        """Have the call that was sent claimed on the main thread. Raises `RequestFailed`, `KernelGone`."""
        try:
            if self._deposited is None and await self._ends_at_once():
                return
            code, sent = await self._after_deposit()
            # A failing cell of the user's aborts what is queued behind it.
            while (await self._link.wait(*sent)).get("status") == "aborted":
                await asyncio.sleep(RETRY_SECONDS)
                sent = self._link.execute(code)
        finally:
            self._live_outputs.collect_now.set()

    def close(self) -> None:
        """No reply is waited for any more."""
        for sent in (self._code_sent, self._deposited):
            if sent is not None:
                self._link.forget(sent[0])

    async def _ends_at_once(self) -> bool:
        """Whether the code that was sent alone has run the call by the time when its deposit is due."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ALONE_SECONDS):
                await self._live_outputs.ended.wait()
        return self._live_outputs.ended.is_set()

    async def _after_deposit(self) -> tuple[str, Sent]:
        """The claiming code, which is queued by the time the call is deposited."""
        sent_alone = self._deposited is None
        if self._deposited is None:
            self._deposited = self._link.send(self._deposit)
        deposited = await self._link.reply(self._deposited, self._deposit.reply_type())
        late = deposited.late or (sent_alone and self._code_failed())
        if not deposited.needs_await and not late:
            return self._code, self._code_sent
        self._link.forget(self._code_sent[0])
        code = take_code(self._call.approval_id, needs_await=deposited.needs_await)
        return code, self._link.execute(code)

    def _code_failed(self) -> bool:
        """Whether the code that was sent alone has ended, not by an interrupt, and did not run the call: it was
        aborted, or refused the deposit."""
        reply = self._code_sent[1]
        if not reply.done() or self._live_outputs.ended.is_set():
            return False
        return reply.result().get("ename") != KeyboardInterrupt.__name__

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
            # The claiming code has ended without claiming the call, for example because of an interrupt.
            await self.interrupt()
            return await self._collect(delivered=False)
        if collected.state == "unknown":
            return Outcome("unknown", "The kernel does not know this call any more: nobody can say whether it ran.")
        return None

    async def interrupt(self) -> bool:
        """Only the kernel knows what its main thread runs, so it sends the signal itself, or withdraws the call."""
        if self._deposited is None:  # else the code that is under way could still begin it
            self._deposited = self._link.send(self._deposit)
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
