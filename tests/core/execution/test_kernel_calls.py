"""A call's messages to a kernel, and what becomes of it where replies and events are lost, late or refuse it."""

import asyncio
import gc
import logging
import weakref
from dataclasses import asdict
from typing import Any

import pytest

from agent_kernel.errors import KernelGone
from agent_kernel.execution import kernel_executor
from agent_kernel.execution.kernel_executor import KernelCalls, KernelExecutor
from agent_kernel.execution.link import KernelLink, Receive
from agent_kernel.protocol.calls import ApprovedCall, Outcome
from agent_kernel.protocol.kernel import CALL_KEY, CallEnd
from agent_kernel.protocol.views import OutputView
from agent_kernel.tools.arguments import digest
from tests.waiting import until

ARGUMENTS = '{"code":"1"}'
CALL = ApprovedCall("apr_1", "call_1", "run_python", ARGUMENTS, digest(ARGUMENTS))
RUN, OFFER, COLLECT = ("shell", "execute_request"), ("control", "call"), ("control", "collect")
SUCCESS = CallEnd(status="success")
DEEP: list[Any] = []
for _ in range(100_000):
    DEEP = [DEEP]


class SilentKernel:
    """A kernel that never answers by itself, and one call on its way to it. Implements `KernelConnection`."""

    takes_input = False

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []
        self.metadata: list[dict[str, Any]] = []
        self.outputs: list[OutputView] = []
        self.calls = KernelCalls(logging.getLogger(__name__))
        self._receive: Receive
        self.link = KernelLink(self)
        self.link.installed.set()
        self.executor = KernelExecutor(lambda: self.link, self.calls, "run_1", None, logging.getLogger(__name__))
        self.outcome = asyncio.create_task(self.executor.execute(CALL, self.outputs.append))

    def connect(self, receive: Receive) -> None:
        self._receive = receive

    def send(self, channel: str, message_type: str, content: dict[str, Any], metadata: dict[str, Any]) -> str:
        self.sent.append((channel, str(content.get("op", message_type))))
        self.metadata.append(metadata)
        return str(len(self.sent))

    def forget(self, message_id: str) -> None:
        """Nothing is kept."""

    def disconnect(self) -> None:
        """Nothing is open."""

    async def is_alive(self) -> bool:
        return True

    async def has_sent(self, *sent: tuple[str, str]) -> None:
        await until(lambda: len(self.sent) >= len(sent))
        assert self.sent == list(sent)

    def answer(self, number: int, **content: Any) -> None:
        """Answer the message of this number, counted from 1."""
        self._receive(str(number), content)

    def prints(self, text: str, number: int = 1) -> None:
        self.calls.on_output(str(number), "stream", {"name": "stdout", "text": text})

    async def ends(self, text: str, number: int = 1) -> None:
        """Print this, and end the call, whose outcome it is."""
        self.prints(text, number)
        self.calls.on_ended("apr_1", SUCCESS)
        assert await self.outcome == Outcome("success", text.strip())


@pytest.fixture
async def kernel(monkeypatch: pytest.MonkeyPatch) -> SilentKernel:
    monkeypatch.setattr(kernel_executor, "EVENT_SECONDS", 0.01)
    kernel = SilentKernel()
    await kernel.has_sent(RUN, OFFER)
    return kernel


async def test_the_call_goes_to_the_main_thread_and_is_offered_to_a_cell_that_waits(kernel: SilentKernel) -> None:
    assert kernel.metadata[0][CALL_KEY]["call"] == asdict(CALL)
    await kernel.ends("1\n")
    assert [output.text for output in kernel.outputs] == ["1\n"]


async def test_an_execution_that_was_aborted_behind_a_failing_cell_is_sent_again(kernel: SilentKernel) -> None:
    for number in (1, 3, 5):
        kernel.answer(number, status="aborted")
        await kernel.has_sent(*[RUN, OFFER] * ((number + 3) // 2))
    await kernel.ends("once", number=7)


async def test_what_the_kernel_refuses_is_the_calls_error(kernel: SilentKernel) -> None:
    kernel.answer(2, ok=False, error="the arguments are not the ones that were approved")
    outcome = await kernel.outcome
    assert (outcome.status, "approved" in outcome.content) == ("error", True)


@pytest.mark.parametrize("text", ["1", ""])
async def test_an_end_whose_event_is_lost_is_collected_and_what_is_missing_is_said(
    kernel: SilentKernel, text: str
) -> None:
    kernel.answer(1, status="ok")
    await kernel.has_sent(RUN, OFFER, COLLECT)
    kernel.answer(3, ok=True, state="done", end={"status": "success", "text": text})
    outcome = await kernel.outcome
    assert outcome.status == "success"
    assert outcome.content.splitlines() == [*([text] if text else []), kernel_executor._LOST]


async def test_an_end_that_comes_after_the_reply_is_waited_for(
    kernel: SilentKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come on two channels."""
    monkeypatch.setattr(kernel_executor, "EVENT_SECONDS", 60)
    kernel.answer(1, status="ok")
    await asyncio.sleep(0.01)
    await kernel.ends("1")
    assert len(kernel.sent) == 2


async def test_an_end_that_comes_so_late_that_the_kernel_has_forgotten_it_is_still_the_calls(
    kernel: SilentKernel,
) -> None:
    """A kernel keeps the ends of some calls, of which hundreds may end before the server reads on."""
    kernel.answer(1, status="ok")
    await kernel.has_sent(RUN, OFFER, COLLECT)
    kernel.answer(3, ok=True, state="unknown")
    await asyncio.sleep(0.05)  # it must not have ended by now
    await kernel.ends("1")


async def test_a_call_that_the_kernel_does_not_know_any_more_has_an_unknown_outcome(kernel: SilentKernel) -> None:
    kernel.answer(1, status="error")
    await kernel.has_sent(RUN, OFFER, COLLECT)
    kernel.answer(3, ok=True, state="unknown")
    assert (await kernel.outcome).status == "unknown"


async def test_an_interrupt_between_the_message_and_the_call_withdraws_it(kernel: SilentKernel) -> None:
    kernel.answer(1, status="error")
    await kernel.has_sent(RUN, OFFER, COLLECT)
    kernel.answer(3, ok=True, state="deposited")
    await kernel.has_sent(RUN, OFFER, COLLECT, ("control", "interrupt"))
    kernel.calls.on_ended("apr_1", CallEnd(status="cancelled", text="Nothing ran.", is_whole=True))
    kernel.answer(4, ok=True, value=True)
    assert await kernel.outcome == Outcome("cancelled", "Nothing ran.")


async def test_a_kernel_that_dies_ends_the_call(kernel: SilentKernel) -> None:
    kernel.link.fail(KernelGone("It ended."))
    with pytest.raises(KernelGone):
        await kernel.outcome


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("stream", {"name": "stdout"}),
        ("display_data", {"data": "x"}),
        ("display_data", {"data": {"text/plain": "x"}, "metadata": 7, "transient": None}),
        ("comm_msg", {"data": {"state": {"outputs": [{}]}}}),
        ("display_data", {"data": {"application/json": DEEP}}),
    ],
)
async def test_an_output_of_the_wrong_shape_is_dropped(kernel: SilentKernel, kind: str, content: Any) -> None:
    kernel.prints("before, ")
    kernel.calls.on_output("1", kind, content)
    kernel.calls.on_output("another's", "stream", {"name": "stdout", "text": "forged"})
    kernel.calls.on_ended("another", CallEnd(status="success", text="forged", is_whole=True))
    await asyncio.sleep(0.01)  # it must not have ended by now
    kernel.prints("after")
    kernel.calls.on_ended("apr_1", SUCCESS)
    assert await kernel.outcome == Outcome("success", "before, after")


async def test_what_a_call_shows_after_its_end_is_shown_for_as_long_as_its_run_is_kept_and_then_let_go(
    kernel: SilentKernel,
) -> None:
    await kernel.ends("1")
    for text in ("late ", "x" * 2_000_000, "dropped"):
        kernel.prints(text)
    await until(lambda: len(kernel.outputs) > 1)
    assert kernel.outputs[1].text.startswith("late xxx")
    shown = weakref.ref(next(iter(kernel.calls._readers.values())))
    kernel.executor, kernel.outcome = None, None  # type: ignore[assignment]
    gc.collect()
    assert shown() is None
