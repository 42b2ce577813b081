"""The kernel's end of the link to the server extension.

Requests come on the control channel, which ipykernel reads in a thread of its own, so that a kernel whose main thread
waits still answers. `control_handlers` is not documented API of ipykernel: nothing outside this module touches it.
"""

import asyncio
import base64
import dataclasses
import inspect
import json
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from agent_kernel.errors import ServerSilent, ToolFailed
from agent_kernel.notebook.context import describe_environment
from agent_kernel.notebook.kernel.environment import is_served, notebook_path
from agent_kernel.notebook.kernel.state import KernelState, kernel_state
from agent_kernel.protocol.views import OutputView, Place, RunView
from agent_kernel.tools.arguments import digest
from agent_kernel.tools.executor import ApprovedCall, Outcome, ToolVerdict

REQUEST = "agent_kernel_request"
REPLY = "agent_kernel_reply"
EVENT = "agent_kernel_event"
TOPIC = b"agent_kernel"

ANNOUNCE_SECONDS = 1.0
ANNOUNCE_TRIES = 15
JUDGE_SECONDS = 5.0

_log = logging.getLogger(__name__)


def install() -> None:
    """Let the server's requests in. Does nothing the second time, or where there is no kernel."""
    state = kernel_state()
    kernel = getattr(state.shell, "kernel", None)
    if kernel is not None and REQUEST not in kernel.control_handlers:
        link = Link(kernel)
        kernel.control_handlers[REQUEST] = _Requests(kernel, state, link).handle
        state.interrupts.tell = lambda run_id: link.send("interrupted", run_id=run_id)
        heard = _hear_interrupts(kernel)
        state.interrupts.was_asked_for = lambda seconds: heard(seconds) or _server_knows(state, link, seconds)


def _hear_interrupts(kernel: Any) -> Callable[[float], bool]:
    """Whether a client has asked this kernel itself for an interrupt, by a message, within so many seconds."""
    last = float("-inf")
    carry_out = kernel.control_handlers.get("interrupt_request")

    def heard(seconds: float) -> bool:
        return time.monotonic() - last <= seconds

    async def interrupt(*request: Any) -> None:
        nonlocal last
        last = time.monotonic()
        done = carry_out(*request)
        if inspect.isawaitable(done):
            await done

    if carry_out is not None:
        kernel.control_handlers["interrupt_request"] = interrupt
    return heard


def _server_knows(state: KernelState, link: "Link", seconds: float) -> bool:
    """The server knows of each interrupt that somebody asks Jupyter for. One that is silent is not taken for a no."""
    through_gateway = not is_served(state.shell)
    try:
        answer = state.questions.ask(
            link.send, "interrupt", tries=1, seconds=round(seconds, 3), through_gateway=through_gateway
        )
    except ServerSilent:
        return True
    return answer.get("asked_for") is not False


class Link:
    """Sends events to the server, from any thread: as IOPub messages under a topic that JupyterLab ignores."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel

    def send(self, event: str, **fields: Any) -> None:
        self._kernel.session.send(self._kernel.iopub_socket, EVENT, {"event": event, **fields}, ident=TOPIC)

    def output(self, approval_id: str, index: int, output: OutputView) -> None:
        self.send("output", approval_id=approval_id, index=index, output=output.model_dump(mode="json"))

    def done(self, approval_id: str, outcome: Outcome) -> bool:  # noqa: ARG002 -- the server collects it
        self.send("outcome", approval_id=approval_id)
        return False

    def announce(
        self,
        run_id: str,
        conversation_id: str,
        through_gateway: bool,
        heard: threading.Event,
        unheard: Callable[[], None],
    ) -> None:
        """Say that there is a new run, each second until `heard` is set; `unheard` is called if nobody asks for it.

        `through_gateway` says which server is meant, where a gateway's own server hears it too.
        """

        def repeat() -> None:
            for _ in range(ANNOUNCE_TRIES):
                self.send("announce", run_id=run_id, conversation_id=conversation_id, through_gateway=through_gateway)
                if heard.wait(ANNOUNCE_SECONDS):
                    return
            unheard()

        threading.Thread(target=repeat, name="agent-kernel-announce", daemon=True).start()


class _Requests:
    """Answers the server's requests, in the control thread."""

    def __init__(self, kernel: Any, state: KernelState, link: Link) -> None:
        self._kernel = kernel
        self._kernel_state = state
        self._link = link
        self._operations: dict[str, Callable[[dict[str, Any]], Any]] = {
            "declare": self._declare,
            "tools": self._tools,
            "state": self._state,
            "finish": self._finish,
            "again": self._again,
            "call": self._call,
            "interrupt": self._interrupt,
            "collect": self._collect,
            "judge": self._judge,
            "preview": self._preview,
            "waiting": self._waiting,
            "undo": self._undo,
            "changes": self._changes,
            "picture": self._picture,
            "environment": self._environment,
            "serve": self._serve,
            "answer": self._answer,
        }

    async def handle(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        content = parent["content"]
        try:
            operation = self._operations[content["op"]]
            answer = operation(content)
            reply = {"ok": True, **(await answer if asyncio.iscoroutine(answer) else answer)}
        except Exception as error:  # noqa: BLE001 -- it becomes the reply
            # The server must hear of any failure; a request without a reply would wait for ever.
            _log.debug("A request of the server failed", exc_info=True)
            reply = {"ok": False, "error": f"{type(error).__name__}: {error}"}
        self._kernel.session.send(stream, REPLY, reply, parent, ident)

    def _declare(self, content: dict[str, Any]) -> dict[str, Any]:
        run = self._kernel_state.run(content["run_id"])
        run.heard.set()
        return {"declaration": run.declaration()}

    def _tools(self, _: dict[str, Any]) -> dict[str, Any]:
        from agent_kernel.notebook.tools import offered_tools

        return {"tools": [dataclasses.asdict(tool.declaration) for tool in offered_tools(self._kernel_state.shell, ())]}

    def _state(self, content: dict[str, Any]) -> dict[str, Any]:
        view = RunView.model_validate(content["run"])
        self._kernel_state.run(view.run_id).update(view)
        return {}

    def _finish(self, content: dict[str, Any]) -> dict[str, Any]:
        from agent_kernel.notebook.run_state import RunEnd

        end = RunEnd.model_validate(content["result"])
        self._kernel_state.run(end.run.run_id).finish(end)
        return {}

    def _again(self, content: dict[str, Any]) -> dict[str, Any]:
        self._kernel_state.run(content["run_id"]).go_on()
        return {}

    def _call(self, content: dict[str, Any]) -> dict[str, Any]:
        call = ApprovedCall(
            approval_id=content["approval_id"],
            tool_call_id=content["tool_call_id"],
            tool_name=content["tool_name"],
            arguments_json=content["arguments_json"],
            digest=content["digest"],
            base=content.get("base", ""),
            place=_place(content),
        )
        if digest(call.arguments_json) != call.digest:
            raise ValueError("the arguments are not the ones that were approved; nothing was run")
        run_id = content.get("run_id")
        needs_await = self._kernel_state.executor.needs_await(call.tool_name, call.arguments_json, run_id)
        withdrawn = self._kernel_state.was_interrupted(run_id)
        late = self._kernel_state.mailbox.deposit(call, self._link, run_id, needs_await, withdrawn=withdrawn)
        return {"needs_await": needs_await, "late": late}

    def _interrupt(self, content: dict[str, Any]) -> dict[str, Any]:
        return {"sent": self._kernel_state.mailbox.interrupt(content["approval_id"])}

    def _collect(self, content: dict[str, Any]) -> dict[str, Any]:
        found = self._kernel_state.mailbox.collect(content["approval_id"], int(content.get("after_index", 0)))
        outcome = None
        if found.outcome is not None:
            outcome = dataclasses.asdict(with_undo(found.outcome, content["approval_id"]))
        outputs = [output.model_dump(mode="json") for output in found.outputs]
        return {"state": found.state, "outputs": outputs, "outcome": outcome}

    async def _judge(self, content: dict[str, Any]) -> dict[str, Any]:
        found = await judge(self._kernel_state, content["tool_name"], content["arguments_json"], content.get("run_id"))
        place = found.place and found.place.model_dump()
        return {"approval": found.approval, "place": place, "may_edit": found.may_edit}

    def _serve(self, _: dict[str, Any]) -> dict[str, Any]:
        self._kernel_state.told_served.set()
        return {}

    def _answer(self, content: dict[str, Any]) -> dict[str, Any]:
        self._kernel_state.questions.answer(content["question_id"], content.get("answer"), content.get("refusal"))
        return {}

    def _waiting(self, content: dict[str, Any]) -> dict[str, Any]:
        return {"cell": waiting_behind(self._kernel_state, content["approval_id"])}

    def _undo(self, content: dict[str, Any]) -> dict[str, Any]:
        from agent_kernel.notebook.execution.undo import backups

        try:
            backups.undo(content["approval_id"])
        except ToolFailed as refusal:
            return {"refusal": str(refusal)}
        return {"refusal": None}

    async def _changes(self, _: dict[str, Any]) -> dict[str, Any]:
        from agent_kernel.notebook.execution.undo import backups

        changes = await asyncio.to_thread(backups.changes)
        return {"changes": [{"approval_id": one.approval_id, "state": one.state} for one in changes]}

    async def _preview(self, content: dict[str, Any]) -> dict[str, Any]:
        from agent_kernel.notebook.tools import preview_of

        # A long file takes a while to compare, and the control thread has more to do.
        place = _place(content)
        card = await asyncio.to_thread(preview_of, content["tool_name"], content["arguments_json"], place)
        return {"card": None if card is None else card.model_dump()}

    async def _picture(self, content: dict[str, Any]) -> dict[str, Any]:
        from agent_kernel.notebook.tools import picture_of

        try:
            notebook = notebook_path(content.get("notebook_path"))
            cell_id = self._kernel_state.cell_of(content.get("run_id"))
            raw = await asyncio.to_thread(picture_of, content["path"], notebook, cell_id)
        except ToolFailed as refusal:
            return {"refusal": str(refusal)}
        return {"data": base64.b64encode(raw).decode()}

    def _environment(self, content: dict[str, Any]) -> dict[str, Any]:
        return {"text": describe_environment(self._kernel_state.shell, content.get("notebook_path"))}


def _place(content: dict[str, Any]) -> Place | None:
    """What a call was judged by; older servers do not say."""
    return Place.model_validate(content["place"]) if content.get("place") is not None else None


def waiting_behind(state: KernelState, approval_id: str) -> int | None:
    """The number of the cell that runs while a call that was handed over waits; `None` once the call has begun."""
    place = state.mailbox.place(approval_id)
    return state.cell_number if place == "deposited" else None


def with_undo(outcome: Outcome, approval_id: str) -> Outcome:
    """The outcome, with word of whether it can be taken back."""
    from agent_kernel.notebook.execution.undo import backups

    return dataclasses.replace(outcome, undo=backups.offer(approval_id))


async def judge(state: KernelState, tool_name: str, arguments_json: str, run_id: str | None = None) -> ToolVerdict:
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
            answer = tool.judge(json.loads(arguments_json))
        except Exception:  # noqa: BLE001 -- the function is the user's
            _log.warning("The approval function of %s failed; the user is asked.", tool_name, exc_info=True)
            answer = no_answer
        loop.call_soon_threadsafe(settle, answer)

    # A thread of its own: the function is the user's, and may hang. So may the file system.
    threading.Thread(target=ask_tool, name="agent-kernel-judge", daemon=True).start()
    try:
        return await asyncio.wait_for(verdict, JUDGE_SECONDS)
    except TimeoutError:
        return no_answer
