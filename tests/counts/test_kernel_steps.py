"""What a tool step in a kernel costs in messages and checks, counted between the server and a real kernel."""

import asyncio
import json
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.errors import KernelGone
from agent_kernel.protocol.calls import ApprovedCall, Outcome
from agent_kernel.protocol.kernel_questions import KernelEvent
from agent_kernel.protocol.kernel_topics import REQUEST_TYPE
from agent_kernel.protocol.views import OutputView
from agent_kernel.runtime.tool_calls import watch
from agent_kernel.testing import FakeOpenAI, call, say
from agent_kernel.tools.arguments import digest
from agent_kernel_server.kernels import call as server_call
from agent_kernel_server.kernels.call import KernelCall
from agent_kernel_server.kernels.link import KernelLink, RequestRefused
from agent_kernel_server.kernels.live_outputs import AllLiveOutputs
from agent_kernel_server.kernels.transport import Receive
from agent_kernel_server.kernels.zmq import ZmqWire
from tests.counts.counting import CountedModel, CountedRuntime
from tests.server.client import Api, Kernel
from tests.waiting import until

STEPS = 6


@pytest.mark.kernel
async def test_a_step_in_an_idle_kernel_is_one_message_there_and_its_outcome_comes_by_itself(
    api: Api, kernel: Kernel, model: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that has not ended soon is deposited by a request too, and asked for its place; outputs that do not come
    soon after the end are asked for. On a slow machine that may be any."""
    monkeypatch.setattr(watch, "FIRST_LOOK_SECONDS", 60)
    monkeypatch.setattr(server_call, "ALONE_SECONDS", 60)
    monkeypatch.setattr(server_call, "EVENT_SECONDS", 60)
    sent: dict[str, list[str]] = defaultdict(list)
    send = ZmqWire.send

    def counted(wire: ZmqWire, channel: str, message_type: str, content: dict[str, Any]) -> str:
        text = json.dumps(content)
        for one in decided:
            if one in text.split('"received"')[0]:
                sent[one].append(f"{channel} {content.get('op', message_type)}")
        return send(wire, channel, message_type, content)

    monkeypatch.setattr(ZmqWire, "send", counted)
    decided: list[str] = []
    model.add(*(call("run_python", code=f"print({number})") for number in range(STEPS)), say("Done."))
    conversation_id = await api.new_conversation(kernel_id=kernel.kernel_id)
    await kernel.ready()
    await api.start_run(conversation_id)
    for _ in range(STEPS):
        approval_id = (await api.next_approval())["approval_id"]
        decided.append(approval_id)
        await api("POST", "approvals", approval_id, body={"approved": True})
    view = await api.ended(conversation_id)
    assert [one["result"].strip() for one in view["tool_calls"]] == [str(number) for number in range(STEPS)]
    assert list(sent.values()) == [["shell call"]] * STEPS


@pytest.mark.kernel
async def test_a_step_is_one_message_of_the_kernel_to_each_page_its_output(
    api: Api, kernel: Kernel, model: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call's end is in the reply, which only the server gets. Of a call that takes longer the kernel is said to be
    busy and idle, or it is deposited by a request and ends with an event: on a slow machine that may be any."""
    monkeypatch.setattr(server_call, "ALONE_SECONDS", 60)
    await kernel.run("from agent_kernel.notebook.kernel import status\nstatus.SHORT_SECONDS = 60")
    model.add(*(call("run_python", code=f"print({number})") for number in range(STEPS)), say("Done."))
    conversation_id = await api.new_conversation(kernel_id=kernel.kernel_id)
    await kernel.ready()
    await api.start_run(conversation_id)
    for _ in range(STEPS):
        await api("POST", "approvals", (await api.next_approval())["approval_id"], body={"approved": True})
    await api.ended(conversation_id)
    heard = await kernel.heard()
    events = [one["content"].get("event") for one in heard if one["msg_type"] == "agent_kernel_event"]
    assert events.count("output") == STEPS
    assert "outcome" not in events
    assert len(heard) < 3 * STEPS  # some are of the kernel's start
    parents = {one["parent_header"].get("msg_type") for one in heard}
    assert parents <= {None, REQUEST_TYPE, "execute_request", "kernel_info_request"}


async def test_audit_entries_are_handed_out_by_the_time_the_log_is_closed(tmp_path: Path) -> None:
    heard: list[str] = []
    counted = await CountedRuntime.open(tmp_path / "log.sqlite", CountedModel(calls=1))
    counted.runtime.listen_to_audit(lambda entries: heard.extend(fields["kind"] for _, fields in entries))
    await counted.run(approval="ask")
    await counted.runtime.aclose()
    assert heard == ["decision", "outcome"]


class MemoryTransport:
    """A kernel that never answers by itself."""

    remote = False
    connections = 0
    is_ending = False
    reports_interrupts = True

    def __init__(self, *, is_idle: bool) -> None:
        self.is_idle = is_idle
        self.sent: list[tuple[str, str]] = []
        self._receive: Receive

    def open_wire(self, receive: Receive) -> "MemoryTransport":
        self._receive = receive
        return self

    def send(self, channel: str, message_type: str, content: dict[str, Any]) -> str:
        self.sent.append((channel, str(content.get("op", message_type))))
        return str(len(self.sent))

    def answer(self, number: int, **content: Any) -> None:
        """Answer the message of this number, counted from 1."""
        self._receive(str(number), content)

    def forget(self, message_id: str) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Nothing is open."""

    async def ends_soon(self) -> bool:
        return False

    async def is_alive(self) -> bool:
        return True

    def restarted(self) -> None:
        raise AssertionError

    async def aclose(self) -> None:
        """Nothing is open."""

    def on_event(self, event: KernelEvent) -> None:
        raise AssertionError


class Delivered:
    """One call on its way to a `MemoryTransport`."""

    def __init__(self, arguments: str = '{"code":"1"}', *, is_idle: bool = True) -> None:
        self.transport = MemoryTransport(is_idle=is_idle)
        self.live = AllLiveOutputs()
        self.outputs: list[OutputView] = []
        approved = ApprovedCall("apr_1", "call_1", "run_python", arguments, digest(arguments))
        self._opened = self.live.open("apr_1", self.outputs.append)
        self.link = KernelLink(self.transport)
        self.call = KernelCall(approved, "run_1", self.link, self._opened.__enter__(), ())
        self.call.send()
        self.delivery = asyncio.create_task(self.call.deliver())

    async def outcome(self) -> Outcome:
        try:
            return await self.call.outcome(self.delivery)
        finally:
            await self.close()

    async def close(self) -> None:
        self.delivery.cancel()
        await asyncio.gather(self.delivery, return_exceptions=True)
        self.call.close()
        self._opened.__exit__(None, None, None)
        self.link.fail(KernelGone("It ended."))


SUCCESS = Outcome(status="success", content="1")


async def test_a_call_to_a_busy_kernel_is_deposited_by_a_request_at_once() -> None:
    one = Delivered(is_idle=False)
    assert one.transport.sent == [("control", "call"), ("shell", "call")]
    await one.close()


@pytest.mark.parametrize("is_idle", [True, False])
async def test_a_call_that_awaits_is_claimed_by_code_that_does_after_one_reply(*, is_idle: bool) -> None:
    one = Delivered('{"code":"await x"}', is_idle=is_idle)
    one.transport.answer(1, ok=True, needs_await=True)
    before = list(one.transport.sent)
    await until(lambda: len(one.transport.sent) > len(before))
    assert one.transport.sent == [*before, ("shell", "execute_request")]
    await one.close()


async def test_code_that_was_aborted_is_sent_again() -> None:
    one = Delivered('{"code":"await x"}')
    one.transport.answer(1, ok=True, needs_await=True)
    for number in (2, 3):
        await until(lambda: len(one.transport.sent) == number)  # noqa: B023 -- awaited at once
        one.transport.answer(number, status="aborted")
    await until(lambda: len(one.transport.sent) == 4)
    assert one.transport.sent[1:] == [("shell", "execute_request")] * 3
    await one.close()


async def test_what_the_main_thread_refuses_is_the_calls_error() -> None:
    one = Delivered()
    one.transport.answer(1, ok=False, error="the arguments are not the ones that were approved")
    with pytest.raises(RequestRefused, match="approved"):
        await one.outcome()


async def test_an_outcome_without_all_its_outputs_is_collected() -> None:
    one = Delivered()
    one.live.on_output("apr_1", 1, OutputView(kind="stream", text="second"))
    one.live.on_end("apr_1", SUCCESS, 2)
    ending = asyncio.create_task(one.outcome())
    await until(lambda: ("control", "collect") in one.transport.sent)
    outputs = [{"kind": "stream", "text": "first"}, {"kind": "stream", "text": "second"}]
    number = one.transport.sent.index(("control", "collect")) + 1
    one.transport.answer(number, ok=True, state="done", outputs=outputs, outcome=asdict(SUCCESS))
    assert await ending == Outcome("success", "1")
    assert [output.text for output in one.outputs] == ["first", "second"]


async def test_an_outcome_that_comes_a_moment_after_the_main_threads_reply_is_not_collected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernel sends them by two threads."""
    monkeypatch.setattr(server_call, "EVENT_SECONDS", 60)
    one = Delivered()
    ending = asyncio.create_task(one.outcome())
    one.transport.answer(1, ok=True, needs_await=False)
    await asyncio.sleep(0.01)
    one.live.on_end("apr_1", SUCCESS, 0)
    assert await ending == Outcome("success", "1")
    assert one.transport.sent == [("shell", "call")]


async def test_an_outcome_in_the_main_threads_reply_needs_no_event() -> None:
    one = Delivered()
    ending = asyncio.create_task(one.outcome())
    one.transport.answer(1, ok=True, end={"outcome": asdict(SUCCESS), "outputs": 0})
    assert await ending == Outcome("success", "1")
    assert one.call.outcome_was_sent
    assert one.transport.sent == [("shell", "call")]


async def test_an_outcome_that_is_here_before_its_outputs_waits_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernel sends them by two threads."""
    monkeypatch.setattr(server_call, "EVENT_SECONDS", 60)
    one = Delivered()
    ending = asyncio.create_task(one.outcome())
    one.transport.answer(1, ok=True, end={"outcome": asdict(SUCCESS), "outputs": 2})
    for index in (0, 1):
        await asyncio.sleep(0.01)
        assert not ending.done()
        one.live.on_output("apr_1", index, OutputView(kind="stream", text=str(index)))
    assert await ending == Outcome("success", "1")
    assert [output.text for output in one.outputs] == ["0", "1"]
    assert one.transport.sent == [("shell", "call")]


async def test_an_output_that_is_lost_after_the_main_threads_reply_is_collected() -> None:
    one = Delivered()
    ending = asyncio.create_task(one.outcome())
    one.transport.answer(1, ok=True, end={"outcome": asdict(SUCCESS), "outputs": 1})
    await until(lambda: ("control", "collect") in one.transport.sent)
    outputs = [{"kind": "stream", "text": "first"}]
    one.transport.answer(2, ok=True, state="done", outputs=outputs, outcome=asdict(SUCCESS))
    assert await ending == Outcome("success", "1")
    assert [output.text for output in one.outputs] == ["first"]


async def test_an_outcome_whose_event_is_lost_is_collected_when_the_main_thread_is_done() -> None:
    one = Delivered()
    ending = asyncio.create_task(one.outcome())
    one.transport.answer(1, ok=True, needs_await=False)
    await until(lambda: ("control", "collect") in one.transport.sent)
    one.transport.answer(2, ok=True, state="done", outputs=[], outcome=asdict(SUCCESS))
    assert await ending == Outcome("success", "1")


async def test_a_call_that_has_not_ended_soon_is_deposited_by_a_request_too_and_its_outcome_comes_by_itself() -> None:
    """The kernel may have been busy after all: a cell that waits for the run claims the call from the mailbox."""
    one = Delivered()
    ending = asyncio.create_task(one.outcome())
    await until(lambda: len(one.transport.sent) == 2)
    one.transport.answer(2, ok=True, needs_await=False)
    one.live.on_end("apr_1", SUCCESS, 0)
    assert await ending == Outcome("success", "1")
    assert one.transport.sent == [("shell", "call"), ("control", "call")]


async def test_an_interrupt_reaches_the_kernel_after_the_deposit_so_that_the_main_thread_finds_the_call_withdrawn() -> (
    None
):
    one = Delivered()
    interrupting = asyncio.create_task(one.call.interrupt())
    await until(lambda: len(one.transport.sent) == 3)
    assert one.transport.sent == [("shell", "call"), ("control", "call"), ("control", "interrupt")]
    one.transport.answer(3, ok=True, sent=True)
    assert await interrupting
    await one.close()
