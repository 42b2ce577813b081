"""Carries out the server's requests, but for those that a first prompt waits for (`requests`)."""

import asyncio
import base64
import json
import logging
from typing import Any, assert_never

from agent_kernel.errors import ToolFailed
from agent_kernel.notebook.kernel.environment import notebook_path
from agent_kernel.notebook.kernel.link import Link
from agent_kernel.notebook.kernel.state import KernelState
from agent_kernel.own_thread import in_own_thread
from agent_kernel.protocol.calls import Outcome, ToolVerdict
from agent_kernel.protocol.first_prompt import Done
from agent_kernel.protocol.kernel import (
    AnswerQuestion,
    CallEnd,
    CallRequest,
    CollectCall,
    Deposited,
    ExecuteCall,
    FinishRun,
    GiveVerdict,
    InterruptCall,
    InterruptSent,
    KeptChange,
    KeptChanges,
    KernelRequest,
    ListChanges,
    LocateCall,
    PictureRead,
    PreviewCall,
    Previewed,
    ReadPicture,
    Reply,
    ResumeRun,
    RunRequest,
    ToolRequest,
    UndoCall,
    Undone,
    UpdateRun,
    VerdictGiven,
    WaitingBehind,
    read_request,
)
from agent_kernel.protocol.kernel_events import CallEnded, CallOutput
from agent_kernel.protocol.views import OutputView
from agent_kernel.tools.arguments import digest

VERDICT_SECONDS = 5.0
MOST_CARRIED = 65_536
"""Characters of an outcome that is sent with the event of the call's end, which every page of the notebook gets. A
longer one waits until the server collects it. The reply of the main thread, which only the server gets, has any."""

_log = logging.getLogger(__name__)


async def reply_to(content: dict[str, Any], state: KernelState, link: Link) -> Reply | Done:
    """Carry out a request of the control channel. Raises `ValidationError`, and what the request leads to."""
    request = read_request(content)
    match request:
        case UpdateRun() | FinishRun() | ResumeRun():
            return _about_run(request, state)
        case ExecuteCall() | InterruptCall() | CollectCall() | LocateCall():
            return _about_call(request, state, link)
        case GiveVerdict() | PreviewCall() | UndoCall() | ListChanges():
            return await _about_tool(request, state)
        case ReadPicture() | AnswerQuestion():
            return await _about_kernel(request, state)
        case _:
            assert_never(request)


def run_call(content: dict[str, Any], state: KernelState, link: Link) -> Deposited:
    """Deposit a call of the shell channel, and run it on this thread, the main one, unless it awaits. Raises as
    `reply_to`."""
    request = ExecuteCall.model_validate(content)
    observer = _RepliedCall(link)
    deposited = _deposit(request, state, observer)
    if not deposited.needs_await:
        state.executor.run_next(request.call.approval_id)
    return deposited.model_copy(update={"end": observer.end_for_reply()})


class _CallEvents:
    """Sends what a call puts out, and its outcome, as events. Implements the mailbox's `Observer`."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def output(self, approval_id: str, index: int, output: OutputView) -> None:
        self._link.send(CallOutput(approval_id=approval_id, index=index, output=output))

    def done(self, approval_id: str, outcome: Outcome, outputs: int) -> bool:
        carried = outcome if len(outcome.content) <= MOST_CARRIED else None
        self._link.send(CallEnded(approval_id=approval_id, outcome=carried, outputs=outputs))
        return False


class _RepliedCall(_CallEvents):
    """Keeps the outcome of a call that ends before the main thread has replied, for that reply: it is with the server
    sooner than an event, and no page gets it.

    It would pass what the kernel has sent before it, too. Outputs are counted; after any other event, such as one that
    cancels the run, so that the model is not asked again, the outcome is an event as well.
    """

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._sent_before = Link.sent
        self._replied = False
        self._end: CallEnd | None = None

    def done(self, approval_id: str, outcome: Outcome, outputs: int) -> bool:
        if Link.sent != self._sent_before + outputs:
            return super().done(approval_id, outcome, outputs)
        self._end = CallEnd(outcome=outcome, outputs=outputs)
        if self._replied:
            return super().done(approval_id, outcome, outputs)
        return False

    def end_for_reply(self) -> CallEnd | None:
        """The end of the call, if it has ended. If not, an event will say so."""
        # Before the end is read: the control thread may withdraw the call meanwhile. Both may say so, harmlessly.
        self._replied = True
        return self._end


def _about_run(request: RunRequest, state: KernelState) -> Reply | Done:
    match request:
        case UpdateRun():
            state.run(request.run.run_id).update(request.run)
        case FinishRun():
            state.mailbox.note_run_ended(request.result.run.run_id)
            state.run(request.result.run.run_id).finish(request.result)
        case ResumeRun():
            state.run(request.run_id).reopen()
        case _:
            assert_never(request)
    return Done()


def _about_call(request: CallRequest, state: KernelState, link: Link) -> Reply | Done:
    match request:
        case ExecuteCall():
            return _deposit(request, state, _CallEvents(link))
        case InterruptCall():
            return InterruptSent(sent=state.mailbox.interrupt(request.approval_id))
        case CollectCall():
            return state.mailbox.collect(request.approval_id, request.after_index)
        case LocateCall():
            return WaitingBehind(cell=waiting_behind(state, request.approval_id))
        case _:
            assert_never(request)


def _deposit(request: ExecuteCall, state: KernelState, observer: _CallEvents) -> Deposited:
    call = request.call
    if digest(call.arguments_json) != call.digest:
        raise ValueError("the arguments are not the ones that were approved; nothing was run")
    state.mailbox.note_received(request.received)
    needs_await = state.executor.needs_await(call.tool_name, call.arguments_json, request.run_id)
    withdrawn = state.was_interrupted(request.run_id)
    state.mailbox.deposit(call, observer, request.run_id, withdrawn=withdrawn)
    return Deposited(needs_await=needs_await)


async def _about_tool(request: ToolRequest, state: KernelState) -> Reply | Done:
    from agent_kernel.notebook.execution.undo import backups

    match request:
        case GiveVerdict():
            found = await tool_verdict(state, request.tool_name, request.arguments_json, request.run_id)
            return VerdictGiven(verdict=found)
        case PreviewCall():
            from agent_kernel.notebook.tools import preview_of

            # A long file takes a while to compare, and the control thread has more to do.
            card = await in_own_thread(lambda: preview_of(request.tool_name, request.arguments_json, request.place))
            return Previewed(card=card)
        case UndoCall():
            try:
                backups.undo(request.approval_id)
            except ToolFailed as refusal:
                return Undone(refusal=str(refusal))
            return Undone()
        case ListChanges():
            changes = await asyncio.to_thread(backups.changes)
            return KeptChanges(
                changes=tuple(KeptChange(approval_id=one.approval_id, state=one.state) for one in changes)
            )
        case _:
            assert_never(request)


async def _about_kernel(request: KernelRequest, state: KernelState) -> Reply | Done:
    match request:
        case ReadPicture():
            return await _read_picture(request, state)
        case AnswerQuestion():
            state.questions.answer(request.question_id, request.answer, request.refusal)
        case _:
            assert_never(request)
    return Done()


async def _read_picture(request: ReadPicture, state: KernelState) -> PictureRead:
    from agent_kernel.notebook.tools import picture_of

    try:
        notebook = notebook_path(request.notebook_path)
        cell_id = state.cell_of(request.run_id)
        raw = await in_own_thread(lambda: picture_of(request.path, notebook, cell_id))
    except ToolFailed as refusal:
        return PictureRead(refusal=str(refusal))
    return PictureRead(data=base64.b64encode(raw).decode())


def waiting_behind(state: KernelState, approval_id: str) -> int | None:
    """The number of the cell behind which a deposited call waits; `None` once the call runs."""
    return state.cell_number if state.mailbox.phase(approval_id) == "deposited" else None


async def tool_verdict(
    state: KernelState, tool_name: str, arguments_json: str, run_id: str | None = None
) -> ToolVerdict:
    """A tool's own verdict on a call; "ask" where it fails, hangs or gives no clear answer."""
    no_answer = ToolVerdict("ask")
    tool = state.find_tool(run_id, tool_name)
    if tool is None:
        return no_answer

    def ask_tool() -> ToolVerdict:
        try:
            return tool.verdict(json.loads(arguments_json))
        except Exception:  # noqa: BLE001 -- the function is the user's
            _log.warning("The approval function of %s failed; the user is asked.", tool_name, exc_info=True)
            return no_answer

    try:
        async with asyncio.timeout(VERDICT_SECONDS):
            return await in_own_thread(ask_tool)  # the function is the user's, and may hang; so may the file system
    except TimeoutError:
        return no_answer
