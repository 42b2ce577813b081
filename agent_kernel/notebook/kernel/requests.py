"""Answers the server extension's requests.

Requests come on the control channel, which ipykernel reads in a thread of its own, so that a kernel whose main thread
waits still answers. ipykernel's `control_handlers` are undocumented: they are used only here.
"""

import asyncio
import base64
import inspect
import json
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any, assert_never

from IPython.core.interactiveshell import InteractiveShell

from agent_kernel.errors import ServerSilent, ToolFailed
from agent_kernel.notebook.context.told_cells import describe_environment
from agent_kernel.notebook.execution.approved_calls import Entry
from agent_kernel.notebook.execution.backups import backups
from agent_kernel.notebook.kernel.environment import is_served, message_of, notebook_path
from agent_kernel.notebook.kernel.mentions import read_mentions
from agent_kernel.notebook.kernel.state import KernelState, kernel_state
from agent_kernel.notebook.kernel.to_server import ServerEvents
from agent_kernel.notebook.offered_tools import picture_of, preview_of
from agent_kernel.own_thread import in_own_thread
from agent_kernel.protocol.calls import ToolVerdict
from agent_kernel.protocol.kernel import (
    CALL_KEY,
    OWN_CODE,
    REPLY_TYPE,
    REQUEST_TYPE,
    AnswerQuestion,
    AskWhetherCellWaits,
    CollectCall,
    Declared,
    DeclareRun,
    DescribeEnvironment,
    EnvironmentDescribed,
    FinishRun,
    GiveVerdict,
    InterruptCall,
    KeptChange,
    ListChanges,
    LocateCall,
    OfferCall,
    PictureRead,
    PreviewCall,
    ReadMentions,
    ReadPicture,
    ReadStateVersion,
    Refused,
    Reply,
    ResumeRun,
    Serve,
    UndoCall,
    UpdateRun,
    Value,
    read_request,
    without_await,
)
from agent_kernel.protocol.kernel_events import AskInterrupt, CallEnded, KernelInterrupted
from agent_kernel.tools.arguments import digest

VERDICT_SECONDS = 5.0
MOST_CARRIED = 65_536
"""Characters of a text that is sent with the event of the call's end, which every page of the notebook gets. A longer
one waits until the server collects it."""

_log = logging.getLogger(__name__)


def install() -> None:
    """Answer the server's requests from now on. Does nothing the second time, or where there is no kernel."""
    state = kernel_state()
    kernel = getattr(state.shell, "kernel", None)
    if kernel is not None and REQUEST_TYPE not in kernel.control_handlers:
        events = ServerEvents(kernel)

        async def handle(stream: Any, ident: Any, parent: dict[str, Any]) -> None:
            """In the control thread."""
            reply = await answer(parent["content"], state)
            kernel.session.send(stream, REPLY_TYPE, reply, parent, ident)

        kernel.control_handlers[REQUEST_TYPE] = handle
        state.calls.on_ended = lambda entry: send_end(events, entry)
        _publish_less(kernel)
        state.shell.input_transformers_cleanup.append(partial(_awaitable, state.shell))
        state.interrupts.cancel_elsewhere = lambda run_id: events.send(KernelInterrupted(run_id=run_id))
        requested = _watch_interrupt_requests(kernel)
        state.interrupts.was_asked_for = lambda seconds: requested(seconds) or _server_knows(state, events, seconds)


def _publish_less(kernel: Any) -> None:
    """Publish nothing of the kernel's state for these requests: pages take a kernel that runs a cell for idle after
    one. `_publish_status` is undocumented, and used only here. Without it, all is published."""
    publish = getattr(kernel, "_publish_status", None)
    if publish is None:
        return

    def publish_status(status: str, channel: str, parent: dict[str, Any] | None = None) -> None:
        message = parent or kernel.get_parent(channel)
        if channel != "control" or message.get("header", {}).get("msg_type") != REQUEST_TYPE:
            publish(status, channel, message)

    kernel._publish_status = publish_status


def _awaitable(shell: InteractiveShell, lines: list[str]) -> list[str]:
    """The code of a call after `%autoawait off`."""
    is_call = not shell.autoawait and len(lines) == 1 and lines[0].startswith(f"await {OWN_CODE}")
    return [without_await(lines[0])] if is_call else lines


def _watch_interrupt_requests(kernel: Any) -> Callable[[float], bool]:
    """A function: whether a client has sent this kernel an interrupt request within the last `seconds`."""
    last = float("-inf")
    original = kernel.control_handlers.get("interrupt_request")

    def requested(seconds: float) -> bool:
        return time.monotonic() - last <= seconds

    async def interrupt(*request: Any) -> None:
        nonlocal last
        last = time.monotonic()
        done = original(*request)
        if inspect.isawaitable(done):
            await done

    if original is not None:
        kernel.control_handlers["interrupt_request"] = interrupt
    return requested


def _server_knows(state: KernelState, events: ServerEvents, seconds: float) -> bool:
    """Whether the server was asked for an interrupt within the last `seconds`. True also if it does not answer."""
    if not (is_served(state.shell) or state.served_through_gateway.is_set()):
        return True
    question = AskInterrupt(through_gateway=not is_served(state.shell), seconds=round(seconds, 3))
    try:
        return state.questions.ask(events.send, question, tries=1).asked_for
    except ServerSilent:
        return True


def send_end(events: ServerEvents, entry: Entry) -> None:
    """Have the server know that a call has ended, after all that the call has put out."""
    end = entry.end
    carried = end if end is not None and len(end.text) <= MOST_CARRIED else None
    events.send(CallEnded(approval_id=entry.call.approval_id, end=carried))


async def answer(content: dict[str, Any], state: KernelState) -> dict[str, Any]:
    """The content of the reply to a request. The server needs one to any failure: it would wait for ever."""
    reply: Reply | Refused
    try:
        reply = await _reply_to(content, state)
    except Exception as error:  # noqa: BLE001 -- it becomes the reply
        _log.debug("A request of the server failed", exc_info=True)
        reply = Refused(error=f"{type(error).__name__}: {error}")
    return reply.model_dump(mode="json")


async def _reply_to(content: dict[str, Any], state: KernelState) -> Reply:  # noqa: C901 -- a case for each request
    """Raises `ValidationError`, and what the request leads to."""
    match request := read_request(content):
        case DeclareRun():
            run = state.run(request.run_id)
            run.acknowledged.set()
            return Declared(declaration=run.declaration())
        case UpdateRun():
            state.run(request.run.run_id).update(request.run)
        case FinishRun():
            state.run(request.result.run.run_id).finish(request.result)
        case ResumeRun():
            state.run(request.run_id).reopen()
        case AskWhetherCellWaits():
            return Value(value=any(run.run_id == request.run_id and run.waits > 0 for run in state.runs()))
        case OfferCall():
            _deposit(request, state)
        case InterruptCall():
            return Value(value=state.calls.interrupt(request.approval_id))
        case CollectCall():
            return state.calls.collect(request.approval_id)
        case LocateCall():
            return Value(value=waiting_behind(state, request.approval_id))
        case GiveVerdict():
            return Value(value=await tool_verdict(state, request.tool_name, request.arguments_json, request.run_id))
        case PreviewCall():
            return Value(
                value=await in_own_thread(lambda: preview_of(request.tool_name, request.arguments_json, request.place))
            )
        case UndoCall():
            return Value(value=_undo(request, state))
        case ListChanges():
            return Value(value=await asyncio.to_thread(_file_changes))
        case Serve():
            state.served_through_gateway.set()
        case DescribeEnvironment():
            return await _describe(request, state)
        case ReadStateVersion():
            return Value(value=state.version.text)
        case ReadPicture():
            return await _read_picture(request, state)
        case ReadMentions():
            path = notebook_path(request.notebook_path)
            return Value(value=await in_own_thread(lambda: read_mentions(state.shell, state.ran, request.names, path)))
        case AnswerQuestion():
            state.questions.answer(request.question_id, request.answer, request.refusal)
        case _:
            assert_never(request)
    return Reply()


async def run_call(approval_id: str) -> None:
    """See `agent_kernel.notebook.run_call`."""
    state = kernel_state()
    offered = message_of(state.shell).get("metadata", {}).get(CALL_KEY)
    if offered is not None:
        _deposit(OfferCall.model_validate(offered), state)
    await state.runner.run(approval_id)


def _deposit(request: OfferCall, state: KernelState) -> None:
    if digest(request.call.arguments_json) != request.call.digest:
        raise ValueError("the arguments are not the ones that were approved; nothing was run")
    state.calls.deposit(request, withdrawn=state.was_interrupted(request.run_id))


def _undo(request: UndoCall, state: KernelState) -> str | None:
    """Why it was not put back."""
    state.version.changed()
    try:
        backups.undo(request.approval_id, redo=request.redo)
    except ToolFailed as refusal:
        return str(refusal)
    finally:
        state.version.changed()
    return None


def _file_changes() -> tuple[KeptChange, ...]:
    """Reads the files."""
    return tuple(KeptChange(approval_id=one.approval_id, state=one.state) for one in backups.changes())


async def _describe(request: DescribeEnvironment, state: KernelState) -> EnvironmentDescribed:
    path, cells = notebook_path(request.notebook_path), state.ran.last(state.number_of(request.run_id))
    # A lazy table may look for its schema in a file that is far away.
    return await in_own_thread(lambda: describe_environment(state.shell, path, cells))


async def _read_picture(request: ReadPicture, state: KernelState) -> PictureRead:
    try:
        notebook = notebook_path(request.notebook_path)
        cell_id = state.cell_of(request.run_id)
        raw = await in_own_thread(lambda: picture_of(request.path, notebook, cell_id))
    except ToolFailed as refusal:
        return PictureRead(refusal=str(refusal))
    return PictureRead(data=base64.b64encode(raw).decode())


def waiting_behind(state: KernelState, approval_id: str) -> int | None:
    """The number of the cell behind which a deposited call waits; `None` once the call runs."""
    return state.cell_number if state.calls.collect(approval_id).state == "deposited" else None


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
