"""`KernelExecutor` runs approved calls in a kernel. A call belongs to one process of the kernel, and ends with it.

A call is one `execute_request`, whose outputs are read by its id. A cell that waits for a run holds up what is queued
behind it, so a control request offers the same call to such a cell. The kernel runs a call once, however it comes.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from logging import Logger
from typing import Any, Protocol
from weakref import WeakValueDictionary

from agent_kernel.errors import KernelGone, ToolFailed
from agent_kernel.execution.link import InvalidReply, KernelLink, RequestFailed, RequestRefused
from agent_kernel.execution.output_reader import OutputReader
from agent_kernel.models.images import NoPicture, decode
from agent_kernel.protocol.calls import ApprovedCall, Outcome, Place, ToolVerdict
from agent_kernel.protocol.file_cards import CellCard, FileCard
from agent_kernel.protocol.kernel import (
    CallEnd,
    CollectCall,
    Collected,
    DescribeEnvironment,
    EnvironmentDescribed,
    GiveVerdict,
    InterruptCall,
    LocateCall,
    Mention,
    OfferCall,
    PreviewCall,
    ReadMentions,
    ReadPicture,
    ReadStateVersion,
    Reply,
    ReplyT,
    Request,
    UndoCall,
)
from agent_kernel.tools.executor import OutputSink

NO_NOTEBOOK = "Cells can be changed only in a notebook of a Jupyter server that has the agent's extension."
ENVIRONMENT_SECONDS = 3.0
PREVIEW_SECONDS = 2.0
VERSION_SECONDS = 1.0
PICTURE_REFUSAL_CHARACTERS = 300
COLLECT_SECONDS = 5.0
"""How often the kernel is asked for a call's end, in case the event that announces it was lost."""
EVENT_SECONDS = 2.0
"""How much later than the reply the outputs and the end of a call may come: they have a channel of their own."""
LATE_SECONDS = 30.0
"""The same, where the kernel has forgotten the end meanwhile."""
INTERRUPT_SECONDS = 2.0
"""How long an interrupted call may take to stop."""
RETRY_SECONDS = 0.05
LATE_CALLS = 64
"""How many ended calls of a run are kept for outputs that still come, for example a figure that a task draws."""

_LOST = "[The end of the output was lost on its way from the kernel.]"
_NOBODY_KNOWS = CallEnd(
    status="unknown", text="The kernel does not know this call any more: nobody can say whether it ran.", is_whole=True
)


class Reader(Protocol):
    """Takes what a kernel publishes for one message."""

    def read(self, kind: str, content: Mapping[str, Any]) -> None: ...


class KernelCalls:
    """The calls of one kernel, for the event loop: each output goes to the call whose message it names."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._readers: WeakValueDictionary[str, Reader] = WeakValueDictionary()
        self._running: dict[str, _KernelCall] = {}

    def on_output(self, message_id: str, kind: str, content: Mapping[str, Any]) -> None:
        """The kernel has published something for this message."""
        reader = self._readers.get(message_id)
        if reader is not None:
            try:
                reader.read(kind, content)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                self._log.debug("An output of a kernel was dropped: %s", error)

    def on_ended(self, approval_id: str, end: CallEnd | None) -> None:
        """The kernel says that a call has ended; without an `end` it has to be collected."""
        if (call := self._running.get(approval_id)) is not None:
            call.announced(end)

    def of(self, approval_id: str) -> "_KernelCall | None":
        return self._running.get(approval_id)

    @contextlib.contextmanager
    def running(self, approval_id: str, call: "_KernelCall") -> Iterator[None]:
        self._running[approval_id] = call
        try:
            yield
        finally:
            del self._running[approval_id]

    def listen(self, message_id: str, reader: Reader) -> None:
        """For as long as somebody else keeps the reader."""
        self._readers[message_id] = reader


class _KernelCall:
    """One approved call in one process of a kernel, from its first message to its end."""

    def __init__(self, call: ApprovedCall, run_id: str, link: KernelLink, calls: KernelCalls, emit: OutputSink) -> None:
        self._call = call
        self._request = OfferCall(call=call, run_id=run_id)
        self._link = link
        self._calls = calls
        self.reader = OutputReader(emit, link.send_line)
        self._ended = asyncio.Event()
        self._end: CallEnd | None = None

    def announced(self, end: CallEnd | None) -> None:
        self._end = end
        self._ended.set()

    async def run(self) -> Outcome:
        """Raises `RequestFailed`, `KernelGone`."""
        return await outcome_of(await self._run(), self.reader, self._call.tool_name)

    async def _run(self) -> CallEnd:
        while True:
            reply = await self._reply()
            if reply.get("status") == "aborted":  # a failing cell of the user's aborts what is queued behind it
                await asyncio.sleep(RETRY_SECONDS)
            elif (end := await self._settled(reply)) is not None:
                return end
            else:
                # The main thread is done with the message and has not begun the call, because of an interrupt.
                await self.interrupt()

    async def _reply(self) -> dict[str, Any]:
        """Send the call both ways. Returns the reply of its execution; an empty one if the call has ended before."""
        sent = self._link.run(self._request)
        self._calls.listen(sent[0], self.reader)
        offered = self._link.send(self._request.model_copy(update={"message_id": sent[0]}))
        ended = asyncio.create_task(self._ended.wait())
        try:
            await self._link.wait_first(sent, offered, ended)
            if offered[1].done():
                await self._link.reply(offered, Reply)  # raises where the kernel refuses the call
            while not (sent[1].done() or ended.done()):
                try:
                    async with asyncio.timeout(COLLECT_SECONDS):
                        await self._link.wait_first(sent, ended)
                except TimeoutError:
                    if (await self._collect()).end is not None:
                        break
            return sent[1].result() if sent[1].done() else {}
        finally:
            ended.cancel()
            self._link.forget(sent[0])
            self._link.forget(offered[0])

    async def _settled(self, reply: Mapping[str, Any]) -> CallEnd | None:
        """The end of the call, after all of its outputs; `None` if the call has not begun."""
        if reply.get("status") == "ok":
            await self._wait_for_event(EVENT_SECONDS)
        while self._end is None:
            collected = await self._collect()
            if collected.state == "unknown":
                # Of a call that ran: a kernel keeps few ends, and on a busy machine the event of this one is late.
                if reply.get("status") == "ok" and await self._wait_for_event(LATE_SECONDS):
                    break
                return _NOBODY_KNOWS
            if collected.state == "deposited":
                return None
            # It has ended, and its event is under way; or a cell that waits runs it.
            told = await self._wait_for_event(EVENT_SECONDS if collected.end is not None else COLLECT_SECONDS)
            if collected.end is not None:
                lost = "" if told or collected.end.is_whole else _LOST
                text = "\n".join(part for part in (collected.end.text, lost) if part)
                return collected.end.model_copy(update={"text": text})
        return self._end or _NOBODY_KNOWS

    async def _wait_for_event(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        return self._ended.is_set()

    async def _collect(self) -> Collected:
        return await self._link.request(CollectCall(approval_id=self._call.approval_id))

    async def interrupt(self) -> bool:
        """Only the kernel knows what its main thread runs, so it sends the signal itself, or withdraws the call."""
        return (await self._link.request(InterruptCall(approval_id=self._call.approval_id))).value

    async def stop(self, log: Logger) -> None:
        """Interrupt a cancelled call and wait a moment for its end, so that the next call does not overlap with it."""
        try:
            async with asyncio.timeout(INTERRUPT_SECONDS):
                if await self.interrupt():
                    await self._ended.wait()
        except (TimeoutError, KernelGone, RequestFailed) as error:
            log.debug("The cancelled call %s was not seen to end: %s", self._call.tool_call_id, error)


async def outcome_of(end: CallEnd, reader: OutputReader, tool_name: str) -> Outcome:
    """The outcome of a call, of its end and of what it has put out."""
    text, path = await reader.end("" if end.is_whole else end.text)
    content = end.text if end.is_whole else text or f"({tool_name} completed with no output)"
    return Outcome(end.status, content, end.undo, path)


class KernelExecutor:
    """Implements `agent_kernel.tools.executor.ToolExecutor` for one run, in either host."""

    def __init__(
        self, link: Callable[[], KernelLink], calls: KernelCalls, run_id: str, notebook_path: str | None, log: Logger
    ) -> None:
        """`link` gives the link to the kernel's present process; `run_id` is the run whose tools the kernel holds."""
        self._link = link
        self._calls = calls
        self._run_id = run_id
        self._notebook_path = notebook_path
        self._log = log
        self._late: deque[OutputReader] = deque(maxlen=LATE_CALLS)

    async def execute(self, call: ApprovedCall, emit: OutputSink) -> Outcome:
        link = self._link()
        try:
            await link.ensure_installed()
            kernel_call = _KernelCall(call, self._run_id, link, self._calls, emit)
            with self._calls.running(call.approval_id, kernel_call):
                try:
                    return await kernel_call.run()
                except asyncio.CancelledError:
                    await kernel_call.stop(self._log)
                    raise
                finally:
                    self._late.append(kernel_call.reader)
        except RequestRefused as error:
            return Outcome("error", str(error))

    async def interrupt(self, approval_id: str) -> bool:
        kernel_call = self._calls.of(approval_id)
        if kernel_call is None:
            return False
        try:
            async with asyncio.timeout(INTERRUPT_SECONDS):
                return await kernel_call.interrupt()
        except (TimeoutError, KernelGone, RequestFailed) as error:
            self._log.debug("The call %s was not interrupted: %s", approval_id, error)
            return False

    async def tool_verdict(self, tool_name: str, arguments_json: str) -> ToolVerdict:
        ask = GiveVerdict(tool_name=tool_name, arguments_json=arguments_json, run_id=self._run_id)
        link = self._link()
        await link.ensure_installed()
        try:
            return (await link.request(ask)).value
        except InvalidReply as error:
            self._log.debug("The kernel gave no clear verdict: %s", error)
            return ToolVerdict("ask")

    async def waiting_behind(self, approval_id: str) -> int | None:
        if self._calls.of(approval_id) is None:
            return None
        try:
            return (await self._link().request(LocateCall(approval_id=approval_id))).value
        except RequestFailed as error:
            self._log.debug("The kernel did not say where the call %s is: %s", approval_id, error)
            return None

    async def _asked(self, request: Request[ReplyT], seconds: float | None) -> ReplyT | None:
        """The reply to a request; `None` if none comes in time, or the kernel refuses it. Raises `KernelGone`."""
        link = self._link()
        try:
            async with asyncio.timeout(seconds):
                await link.ensure_installed()
                return await link.request(request)
        except (TimeoutError, RequestFailed) as error:
            self._log.debug("The kernel did not answer %s: %s", type(request).__name__, error)
            return None

    async def state_version(self) -> str | None:
        reply = await self._asked(ReadStateVersion(), VERSION_SECONDS)
        return reply.value if reply is not None else None

    async def undo(self, approval_id: str, *, redo: bool = False) -> None:
        """Raises `ToolFailed`, `KernelGone`."""
        link = self._link()
        try:
            async with asyncio.timeout(ENVIRONMENT_SECONDS):
                await link.ensure_installed()
        except (TimeoutError, RequestFailed):
            raise ToolFailed("The kernel does not answer yet. Nothing was put back: try again later.") from None
        try:
            refusal = (await link.request(UndoCall(approval_id=approval_id, redo=redo))).value
        except RequestFailed as error:
            raise ToolFailed(f"The kernel failed: {error} Look whether it was put back before you go on.") from error
        if refusal is not None:
            raise ToolFailed(refusal)

    async def preview(self, tool_name: str, arguments_json: str, place: Place | None) -> FileCard | None:
        ask = PreviewCall(tool_name=tool_name, arguments_json=arguments_json, place=place)
        reply = await self._asked(ask, PREVIEW_SECONDS)
        return reply.value if reply is not None else None

    async def cell_card(self, tool_name: str, arguments_json: str, seen: str | None) -> CellCard:  # noqa: ARG002 -- see `NotebookExecutor`
        return CellCard(refusal=NO_NOTEBOOK)

    async def read_picture(self, address: str) -> bytes:
        """Raises `ToolFailed`, `KernelGone`."""
        ask = ReadPicture(path=address, run_id=self._run_id, notebook_path=self._notebook_path)
        picture = await self._asked(ask, None)
        if picture is None:
            raise ToolFailed("the kernel could not read it")
        if picture.refusal is not None:
            raise ToolFailed(picture.refusal[:PICTURE_REFUSAL_CHARACTERS])
        try:
            return decode(picture.data)
        except NoPicture as reason:
            raise ToolFailed(str(reason)) from None

    async def read_mentions(self, names: Sequence[str]) -> tuple[Mention, ...]:
        """Raises `ToolFailed`, `KernelGone`."""
        ask = ReadMentions(names=tuple(names), notebook_path=self._notebook_path)
        reply = await self._asked(ask, ENVIRONMENT_SECONDS)
        if reply is None:
            raise ToolFailed("the kernel did not send it")
        return reply.value

    async def describe_environment(self) -> EnvironmentDescribed:
        """Raises `KernelGone`; empty where a busy kernel has not loaded the extension yet."""
        ask = DescribeEnvironment(notebook_path=self._notebook_path, run_id=self._run_id)
        return await self._asked(ask, ENVIRONMENT_SECONDS) or EnvironmentDescribed()
