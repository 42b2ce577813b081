"""The kernel's end of the link to the server extension.

Requests come on the control channel, which ipykernel reads in a thread of its own, so that a kernel whose main thread
waits still answers. A call comes on the shell channel too, behind the user's cells: there the main thread runs it.
ipykernel's `control_handlers` and `shell_handlers` are undocumented: they are used only here.
"""

import asyncio
import base64
import inspect
import json
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, assert_never

import zmq

from agent_kernel.errors import ServerSilent, ToolFailed
from agent_kernel.notebook.context import describe_environment
from agent_kernel.notebook.kernel.environment import is_served, notebook_path
from agent_kernel.notebook.kernel.state import KernelState, kernel_state
from agent_kernel.notebook.kernel.status import publish_less
from agent_kernel.protocol.kernel import (
    AnswerQuestion,
    AnyRequest,
    CallRequest,
    CollectCall,
    Declared,
    DeclareRun,
    Deposited,
    DescribeEnvironment,
    Done,
    EnvironmentDescribed,
    ExecuteCall,
    FinishRun,
    GiveVerdict,
    InterruptCall,
    InterruptSent,
    KeptChange,
    KeptChanges,
    KernelMessage,
    KernelRequest,
    ListChanges,
    LocateCall,
    PictureRead,
    PreviewCall,
    Previewed,
    ReadPicture,
    Refused,
    Reply,
    ResumeRun,
    RunRequest,
    Serve,
    ToolRequest,
    UndoCall,
    Undone,
    UpdateRun,
    VerdictGiven,
    WaitingBehind,
    content_of,
    read_request,
)
from agent_kernel.protocol.kernel_events import CallEnded, CallOutput, KernelInterrupted, RunAnnounced
from agent_kernel.protocol.kernel_topics import EVENT_TOPIC, EVENT_TYPE, REPLY_TYPE, REQUEST_TYPE
from agent_kernel.protocol.tools import Outcome, ToolVerdict
from agent_kernel.protocol.views import OutputView
from agent_kernel.tools.arguments import digest

ANNOUNCE_SECONDS = 1.0
ANNOUNCE_TRIES = 15
VERDICT_SECONDS = 5.0
MOST_CARRIED = 65_536
"""Characters of an outcome that is sent with the event of the call's end, which every page of the notebook gets. A
longer one waits until the server collects it."""

_log = logging.getLogger(__name__)


def install() -> None:
    """Answer the server's requests from now on. Does nothing the second time, or where there is no kernel."""
    state = kernel_state()
    kernel = getattr(state.shell, "kernel", None)
    if kernel is not None and REQUEST_TYPE not in kernel.control_handlers:
        link = Link(kernel)
        handler = _RequestHandler(kernel, state, link)
        kernel.control_handlers[REQUEST_TYPE] = handler.handle
        kernel.shell_handlers[REQUEST_TYPE] = handler.run
        publish_less(kernel)
        state.interrupts.cancel_elsewhere = lambda run_id: link.send(KernelInterrupted(run_id=run_id))
        requested = _watch_interrupt_requests(kernel)
        state.interrupts.was_asked_for = lambda seconds: requested(seconds) or _server_knows(state, link, seconds)


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


def _server_knows(state: KernelState, link: "Link", seconds: float) -> bool:
    """Whether the server was asked for an interrupt within the last `seconds`. True also if it does not answer."""
    from agent_kernel.protocol.kernel_questions import AskInterrupt  # no first prompt waits for questions' models

    question = AskInterrupt(through_gateway=not is_served(state.shell), seconds=round(seconds, 3))
    try:
        return state.questions.ask(link.send, question, tries=1).asked_for
    except ServerSilent:
        return True


class Link:
    """Sends events to the server, from any thread: as IOPub messages under a topic that JupyterLab ignores."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel

    def send(self, event: KernelMessage) -> None:
        self._kernel.session.send(self._kernel.iopub_socket, EVENT_TYPE, content_of(event), ident=EVENT_TOPIC)

    def output(self, approval_id: str, index: int, output: OutputView) -> None:
        self.send(CallOutput(approval_id=approval_id, index=index, output=output))

    def done(self, approval_id: str, outcome: Outcome, outputs: int) -> bool:
        carried = outcome if len(outcome.content) <= MOST_CARRIED else None
        self.send(CallEnded(approval_id=approval_id, outcome=carried, outputs=outputs))
        return False

    def announce(self, run: RunAnnounced, acknowledged: threading.Event, on_timeout: Callable[[], None]) -> None:
        """Announce a new run each second until `acknowledged` is set; call `on_timeout` if it never is."""

        def repeat() -> None:
            for _ in range(ANNOUNCE_TRIES):
                self.send(run)
                if acknowledged.wait(ANNOUNCE_SECONDS):
                    return
            on_timeout()

        threading.Thread(target=repeat, name="agent-kernel-announce", daemon=True).start()


class _RequestHandler:
    """Answers the server's requests: in the control thread, and calls to be run on the main thread."""

    def __init__(self, kernel: Any, state: KernelState, link: Link) -> None:
        self._kernel = kernel
        self._state = state
        self._link = link

    async def handle(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Answer a request of the control channel."""
        reply: Reply | Refused
        try:
            reply = await self._reply_to(read_request(parent["content"]))
        except Exception as error:  # noqa: BLE001 -- it becomes the reply
            reply = _refusal(error)
        self._kernel.session.send(stream, REPLY_TYPE, content_of(reply), parent, ident)
        # Else it is sent when ipykernel has flushed stdout and stderr, which takes two turns of the IOPub thread.
        stream.flush(zmq.POLLOUT)
        if isinstance(reply, EnvironmentDescribed):
            self._state.described.set()

    def run(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Run a call of the shell channel, on the main thread, if it was not claimed already. One that awaits is only
        deposited. The reply comes afterwards."""
        reply: Reply | Refused
        try:
            request = ExecuteCall.model_validate(parent["content"])
            reply = deposited = self._deposit(request)
            if not deposited.needs_await:
                self._state.executor.run_next(request.call.approval_id)
        except Exception as error:  # noqa: BLE001 -- it becomes the reply
            reply = _refusal(error)
        self._kernel.session.send(stream, REPLY_TYPE, content_of(reply), parent, ident)

    async def _reply_to(self, request: AnyRequest) -> Reply:
        match request:
            case DeclareRun() | UpdateRun() | FinishRun() | ResumeRun():
                return self._about_run(request)
            case ExecuteCall() | InterruptCall() | CollectCall() | LocateCall():
                return self._about_call(request)
            case GiveVerdict() | PreviewCall() | UndoCall() | ListChanges():
                return await self._about_tool(request)
            case ReadPicture() | DescribeEnvironment() | Serve() | AnswerQuestion():
                return await self._about_kernel(request)
            case _:
                assert_never(request)

    def _about_run(self, request: RunRequest) -> Reply:
        match request:
            case DeclareRun():
                run = self._state.run(request.run_id)
                run.acknowledged.set()
                return Declared(declaration=run.declaration())
            case UpdateRun():
                self._state.run(request.run.run_id).update(request.run)
            case FinishRun():
                self._state.mailbox.note_run_ended(request.result.run.run_id)
                self._state.run(request.result.run.run_id).finish(request.result)
            case ResumeRun():
                self._state.run(request.run_id).reopen()
            case _:
                assert_never(request)
        return Done()

    def _about_call(self, request: CallRequest) -> Reply:
        match request:
            case ExecuteCall():
                return self._deposit(request)
            case InterruptCall():
                return InterruptSent(sent=self._state.mailbox.interrupt(request.approval_id))
            case CollectCall():
                return self._state.mailbox.collect(request.approval_id, request.after_index)
            case LocateCall():
                return WaitingBehind(cell=waiting_behind(self._state, request.approval_id))
            case _:
                assert_never(request)

    def _deposit(self, request: ExecuteCall) -> Deposited:
        call = request.call
        if digest(call.arguments_json) != call.digest:
            raise ValueError("the arguments are not the ones that were approved; nothing was run")
        self._state.mailbox.note_received(request.received)
        needs_await = self._state.executor.needs_await(call.tool_name, call.arguments_json, request.run_id)
        withdrawn = self._state.was_interrupted(request.run_id)
        self._state.mailbox.deposit(call, self._link, request.run_id, withdrawn=withdrawn)
        return Deposited(needs_await=needs_await)

    async def _about_tool(self, request: ToolRequest) -> Reply:
        from agent_kernel.notebook.execution.undo import backups

        match request:
            case GiveVerdict():
                found = await tool_verdict(self._state, request.tool_name, request.arguments_json, request.run_id)
                return VerdictGiven(verdict=found)
            case PreviewCall():
                from agent_kernel.notebook.tools import preview_of

                # A long file takes a while to compare, and the control thread has more to do.
                card = await asyncio.to_thread(preview_of, request.tool_name, request.arguments_json, request.place)
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

    async def _about_kernel(self, request: KernelRequest) -> Reply:
        match request:
            case ReadPicture():
                return await self._read_picture(request)
            case DescribeEnvironment():
                path = notebook_path(request.notebook_path)
                return EnvironmentDescribed(text=describe_environment(self._state.shell, path))
            case Serve():
                self._state.served_through_gateway.set()
            case AnswerQuestion():
                self._state.questions.answer(request.question_id, request.answer, request.refusal)
            case _:
                assert_never(request)
        return Done()

    async def _read_picture(self, request: ReadPicture) -> PictureRead:
        from agent_kernel.notebook.tools import picture_of

        try:
            notebook = notebook_path(request.notebook_path)
            cell_id = self._state.cell_of(request.run_id)
            raw = await asyncio.to_thread(picture_of, request.path, notebook, cell_id)
        except ToolFailed as refusal:
            return PictureRead(refusal=str(refusal))
        return PictureRead(data=base64.b64encode(raw).decode())


def _refusal(error: Exception) -> Refused:
    """The server needs a reply to any failure: it would wait for ever."""
    _log.debug("A request of the server failed", exc_info=True)
    return Refused(error=f"{type(error).__name__}: {error}")


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
    verdict: asyncio.Future[ToolVerdict] = asyncio.get_running_loop().create_future()
    loop = asyncio.get_running_loop()

    def settle(answer: ToolVerdict) -> None:
        if not verdict.done():
            verdict.set_result(answer)

    def ask_tool() -> None:
        try:
            answer = tool.verdict(json.loads(arguments_json))
        except Exception:  # noqa: BLE001 -- the function is the user's
            _log.warning("The approval function of %s failed; the user is asked.", tool_name, exc_info=True)
            answer = no_answer
        loop.call_soon_threadsafe(settle, answer)

    # A thread of its own: the function is the user's, and may hang. So may the file system.
    threading.Thread(target=ask_tool, name="agent-kernel-verdict", daemon=True).start()
    try:
        return await asyncio.wait_for(verdict, VERDICT_SECONDS)
    except TimeoutError:
        return no_answer
