"""KernelCall is one execution of an approved call in one life of a kernel, from its deposit to its outcome."""

import asyncio
from logging import Logger
from typing import Literal

from agent_kernel.errors import KernelGone
from agent_kernel.tools.executor import ApprovedCall, Outcome
from agent_kernel_server.kernels.link import KernelLink, RequestRefused, Sent
from agent_kernel_server.kernels.live_outputs import LiveOutputs
from agent_kernel_server.kernels.messages import Collected

COLLECT_SECONDS = 5.0
"""How often a call is asked for, in case that a hint of its end was lost."""

INTERRUPT_SECONDS = 2.0
"""How long an interrupted call is given to stop before nobody waits for it any more."""

RETRY_SECONDS = 0.05


def take_code(approval_id: str, needs_await: bool = False) -> str:
    """Code that claims a deposited call and leaves no name behind."""
    name: Literal["take", "take_async"] = "take_async" if needs_await else "take"
    call = f'__import__("agent_kernel.notebook", fromlist=["{name}"]).{name}({approval_id!r})'
    return f"await {call}" if needs_await else call


class KernelCall:
    def __init__(self, call: ApprovedCall, link: KernelLink, feed: LiveOutputs) -> None:
        self._call = call
        self._link = link
        self._feed = feed

    async def hand_over(self, run_id: str) -> None:
        """Lay the call down in the kernel and have it claimed there. Raises `KernelGone`, `RequestRefused`."""
        try:
            code, sent = await self._deposit(run_id)
            # A failing cell of the user's aborts what is queued behind it.
            while (await self._link.wait(*sent)).get("status") == "aborted":
                await asyncio.sleep(RETRY_SECONDS)
                sent = self._link.execute(code)
        finally:
            self._feed.news.set()

    async def _deposit(self, run_id: str) -> tuple[str, Sent]:
        """The claiming code that is queued once the call is laid down.

        It is sent together with the deposit, because a round trip costs as much as all else on the way. It waits for
        the deposit, but not for long, and leaves a call that awaits alone: then other code follows.
        """
        deposit = self._link.ask(
            "call",
            {
                "approval_id": self._call.approval_id,
                "tool_call_id": self._call.tool_call_id,
                "tool_name": self._call.tool_name,
                "arguments_json": self._call.arguments_json,
                "digest": self._call.digest,
                "base": self._call.base,
                "place": self._call.place and self._call.place.model_dump(),
                "run_id": run_id,
            },
        )
        code = take_code(self._call.approval_id)
        sent = self._link.execute(code)
        try:
            answer = await self._link.answer(deposit)
        except BaseException:
            self._link.forget(sent[0])
            raise
        needs_await = answer.get("needs_await") is True
        if not needs_await and answer.get("late") is not True:
            return code, sent
        self._link.forget(sent[0])
        code = take_code(self._call.approval_id, needs_await)
        return code, self._link.execute(code)

    async def outcome(self, claim: asyncio.Task[None]) -> Outcome:
        """Wait for the end. Raises `KernelGone`, `RequestRefused`."""
        while True:
            try:
                async with asyncio.timeout(COLLECT_SECONDS):
                    await self._feed.news.wait()
            except TimeoutError:
                await self._link.check_alive()
            claimed = claim.done()
            if claimed:
                claim.result()
            self._feed.news.clear()
            outcome = await self._collect(claimed)
            if outcome is not None:
                return outcome

    async def _collect(self, claimed: bool) -> Outcome | None:
        first = self._feed.next_index
        answer = Collected.model_validate(
            await self._link.control("collect", {"approval_id": self._call.approval_id, "after_index": first})
        )
        self._feed.repair(first, answer.outputs)
        if answer.outcome is not None:
            return Outcome(**answer.outcome.model_dump())
        if claimed and answer.state == "deposited":
            # The code that was to claim it has ended without that, as where an interrupt has hit it.
            await self.interrupt()
            return await self._collect(claimed=False)
        if answer.state == "unknown":
            return Outcome("unknown", "The kernel does not know this call any more: nobody can say whether it ran.")
        return None

    async def interrupt(self) -> bool:
        """Only the kernel knows what its main thread runs, so the kernel itself sends the signal, or withdraws."""
        answer = await self._link.control("interrupt", {"approval_id": self._call.approval_id})
        return answer.get("sent") is True

    async def stop(self, log: Logger) -> None:
        """Interrupt a cancelled call and give it a moment to end, so that the next one does not meet it."""
        try:
            async with asyncio.timeout(INTERRUPT_SECONDS):
                while await self.interrupt():
                    self._feed.news.clear()
                    if await self._collect(claimed=False) is not None:
                        return
                    await self._feed.news.wait()
        except (TimeoutError, KernelGone, RequestRefused) as error:
            log.debug("The cancelled call %s was not seen to end: %s", self._call.tool_call_id, error)
