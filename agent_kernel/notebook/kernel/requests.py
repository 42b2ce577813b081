"""Answers the server extension's requests.

Requests come on the control channel, which ipykernel reads in a thread of its own, so that a kernel whose main thread
waits still answers. ipykernel's `control_handlers` are undocumented: they are used only here.

The requests that a first prompt waits for are answered here; `replies`, which carries out the others, is imported when
the first of those comes.
"""

import inspect
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any, assert_never

import zmq
from IPython.core.interactiveshell import InteractiveShell

from agent_kernel.errors import ServerSilent
from agent_kernel.notebook.context import describe_environment
from agent_kernel.notebook.execution.calls import Entry
from agent_kernel.notebook.kernel.environment import is_served, notebook_path
from agent_kernel.notebook.kernel.link import Link
from agent_kernel.notebook.kernel.state import KernelState, kernel_state
from agent_kernel.notebook.kernel.status import publish_less
from agent_kernel.protocol.first_prompt import (
    Declared,
    DeclareRun,
    DescribeEnvironment,
    Done,
    EnvironmentDescribed,
    FirstRequest,
    Message,
    Refused,
    Serve,
    content_of,
    read_first_request,
)
from agent_kernel.protocol.kernel_code import OWN_CODE, without_await
from agent_kernel.protocol.kernel_topics import REPLY_TYPE, REQUEST_TYPE

_log = logging.getLogger(__name__)


def install() -> None:
    """Answer the server's requests from now on. Does nothing the second time, or where there is no kernel."""
    state = kernel_state()
    kernel = getattr(state.shell, "kernel", None)
    if kernel is not None and REQUEST_TYPE not in kernel.control_handlers:
        link = Link(kernel)
        handler = _RequestHandler(kernel, state)
        kernel.control_handlers[REQUEST_TYPE] = handler.handle
        state.calls.on_ended = lambda entry: _send_end(link, entry)
        publish_less(kernel)
        state.shell.input_transformers_cleanup.append(partial(_awaitable, state.shell))
        state.interrupts.cancel_elsewhere = lambda run_id: _cancel_elsewhere(link, run_id)
        requested = _watch_interrupt_requests(kernel)
        state.interrupts.was_asked_for = lambda seconds: requested(seconds) or _server_knows(state, link, seconds)


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


def _send_end(link: Link, entry: Entry) -> None:
    from agent_kernel.notebook.kernel.replies import send_end  # which a first prompt has no time for

    send_end(link, entry)


def _cancel_elsewhere(link: Link, run_id: str | None) -> None:
    from agent_kernel.protocol.kernel_events import KernelInterrupted  # which a first prompt has no time for

    link.send(KernelInterrupted(run_id=run_id))


def _server_knows(state: KernelState, link: Link, seconds: float) -> bool:
    """Whether the server was asked for an interrupt within the last `seconds`. True also if it does not answer."""
    from agent_kernel.protocol.kernel_questions import AskInterrupt  # which a first prompt has no time for

    if not (is_served(state.shell) or state.served_through_gateway.is_set()):
        return True
    question = AskInterrupt(through_gateway=not is_served(state.shell), seconds=round(seconds, 3))
    try:
        return state.questions.ask(link.send, question, tries=1).asked_for
    except ServerSilent:
        return True


class _RequestHandler:
    """Answers the server's requests, in the control thread."""

    def __init__(self, kernel: Any, state: KernelState) -> None:
        self._kernel = kernel
        self._state = state

    async def handle(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        reply = await answer(parent["content"], self._state)
        self._kernel.session.send(stream, REPLY_TYPE, reply, parent, ident)
        # Else it is sent when ipykernel has flushed stdout and stderr, which takes two turns of the IOPub thread.
        stream.flush(zmq.POLLOUT)


async def answer(content: dict[str, Any], state: KernelState) -> dict[str, Any]:
    """The content of the reply to a request."""
    try:
        first = read_first_request(content)
        reply: Message = _reply_to(first, state) if first is not None else await _carry_out(content, state)
    except Exception as error:  # noqa: BLE001 -- it becomes the reply
        reply = _refusal(error)
    return content_of(reply)


def _reply_to(request: FirstRequest, state: KernelState) -> Done | Declared | EnvironmentDescribed:
    match request:
        case Serve():
            state.served_through_gateway.set()
            return Done()
        case DeclareRun():
            run = state.run(request.run_id)
            run.acknowledged.set()
            return Declared(run.declaration())
        case DescribeEnvironment():
            path = notebook_path(request.notebook_path)
            return EnvironmentDescribed(describe_environment(state.shell, path))
        case _:
            assert_never(request)


async def _carry_out(content: dict[str, Any], state: KernelState) -> Message:
    from agent_kernel.notebook.kernel.replies import reply_to

    return await reply_to(content, state)


def _refusal(error: Exception) -> Refused:
    """The server needs a reply to any failure: it would wait for ever."""
    _log.debug("A request of the server failed", exc_info=True)
    return Refused(error=f"{type(error).__name__}: {error}")
