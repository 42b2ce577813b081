"""Carries out the server's requests, but for those that a first prompt waits for (`requests`)."""

import asyncio
import base64
import json
import logging
from typing import Any, assert_never

from agent_kernel.errors import ToolFailed
from agent_kernel.notebook.execution.calls import Entry
from agent_kernel.notebook.kernel.environment import kernel_of, notebook_path
from agent_kernel.notebook.kernel.link import Link
from agent_kernel.notebook.kernel.state import KernelState, kernel_state
from agent_kernel.own_thread import in_own_thread
from agent_kernel.protocol.calls import ToolVerdict
from agent_kernel.protocol.first_prompt import Done
from agent_kernel.protocol.kernel import (
    AnswerQuestion,
    CallRequest,
    CollectCall,
    FinishRun,
    GiveVerdict,
    InterruptCall,
    InterruptSent,
    KeptChange,
    KeptChanges,
    KernelRequest,
    ListChanges,
    LocateCall,
    OfferCall,
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
from agent_kernel.protocol.kernel_code import CALL_KEY
from agent_kernel.protocol.kernel_events import CallEnded
from agent_kernel.tools.arguments import digest

VERDICT_SECONDS = 5.0
MOST_CARRIED = 65_536
"""Characters of a text that is sent with the event of the call's end, which every page of the notebook gets. A longer
one waits until the server collects it."""

_log = logging.getLogger(__name__)


async def reply_to(content: dict[str, Any], state: KernelState) -> Reply | Done:
    """Carry out a request of the control channel. Raises `ValidationError`, and what the request leads to."""
    request = read_request(content)
    match request:
        case UpdateRun() | FinishRun() | ResumeRun():
            return _about_run(request, state)
        case OfferCall() | InterruptCall() | CollectCall() | LocateCall():
            return _about_call(request, state)
        case GiveVerdict() | PreviewCall() | UndoCall() | ListChanges():
            return await _about_tool(request, state)
        case ReadPicture() | AnswerQuestion():
            return await _about_kernel(request, state)
        case _:
            assert_never(request)


async def run_call(approval_id: str) -> None:
    """See `agent_kernel.notebook.run_call`."""
    state = kernel_state()
    kernel = kernel_of(state.shell)
    offered = kernel.get_parent("shell").get("metadata", {}).get(CALL_KEY) if kernel is not None else None
    if offered is not None:
        _deposit(OfferCall.model_validate(offered), state)
    await state.runner.run(approval_id)


def _about_run(request: RunRequest, state: KernelState) -> Reply | Done:
    match request:
        case UpdateRun():
            state.run(request.run.run_id).update(request.run)
        case FinishRun():
            state.run(request.result.run.run_id).finish(request.result)
        case ResumeRun():
            state.run(request.run_id).reopen()
        case _:
            assert_never(request)
    return Done()


def _about_call(request: CallRequest, state: KernelState) -> Reply | Done:
    match request:
        case OfferCall():
            _deposit(request, state)
            return Done()
        case InterruptCall():
            return InterruptSent(sent=state.calls.interrupt(request.approval_id))
        case CollectCall():
            return state.calls.collect(request.approval_id)
        case LocateCall():
            return WaitingBehind(cell=waiting_behind(state, request.approval_id))
        case _:
            assert_never(request)


def _deposit(request: OfferCall, state: KernelState) -> None:
    if digest(request.call.arguments_json) != request.call.digest:
        raise ValueError("the arguments are not the ones that were approved; nothing was run")
    state.calls.deposit(request, withdrawn=state.was_interrupted(request.run_id))


def send_end(link: Link, entry: Entry) -> None:
    """Have the server know that a call has ended, after all that the call has put out."""
    end = entry.end
    carried = end if end is not None and len(end.text) <= MOST_CARRIED else None
    link.send(CallEnded(approval_id=entry.call.approval_id, end=carried))


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
    return state.cell_number if state.calls.phase(approval_id) == "deposited" else None


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
