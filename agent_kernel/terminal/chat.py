"""`agent-kernel chat`: follows a conversation, asks the person what waits, and sends the answers."""

import asyncio
import json
import signal
import sys
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, aclosing, contextmanager, suppress
from typing import Any, TextIO, TypeVar
from urllib.parse import quote

from agent_kernel.errors import AgentKernelError
from agent_kernel.protocol.events import RunEvent, SessionEvent
from agent_kernel.protocol.views import RunView
from agent_kernel.record import words
from agent_kernel.terminal.answers import Answers, Request
from agent_kernel.terminal.choose import Leave, Wanted, choose_conversation, choose_server
from agent_kernel.terminal.connection import (
    ChatError,
    Connected,
    Frame,
    Gone,
    Lost,
    Refused,
    Server,
    follow,
    read_event,
)
from agent_kernel.terminal.keyboard import INTERRUPT, Keyboard, above, quiet_keys
from agent_kernel.terminal.state import Ask, Conversation
from agent_kernel.terminal.text import DIM, MARGIN, Terminal, one_line
from agent_kernel.terminal.transcript import Transcript

GIVE_UP_SECONDS = 120.0
"""How long a script waits for a server that can't be reached."""
WAITING_ITEMS = 1_000
SETTLE_SECONDS = 0.05
"""Calls of one step come one after another, and are shown before the first is asked about."""
RETRY = "/retry"
FAILED = 1
"""The exit code; 0 where the run is complete, or the person has left."""


class Interrupted:
    """The person pressed Ctrl+C while nothing was asked."""


T = TypeVar("T")
Item = Frame | Lost | Connected | Interrupted | AgentKernelError


async def run_chat(wanted: Wanted, *, as_json: bool, out: TextIO, columns: Callable[[], int], colour: bool) -> int:
    """Returns the exit code. Raises `ChatError`, `Lost`, `Refused`, `Gone`."""
    asks = not as_json and out.isatty() and sys.stdin.isatty()
    terminal = Terminal(out, columns=columns, colour=colour)
    keys = Keyboard() if asks else None
    async with AsyncExitStack() as stack:
        try:
            server = await choose_server(wanted, stack, keys, terminal)
            conversation_id = await choose_conversation(wanted, server, keys, terminal)
        except Leave:
            return 0
        if keys is None:
            return await (
                _print_json(server, conversation_id, out) if as_json else _print(server, conversation_id, terminal)
            )
        return await Chat(server, conversation_id, terminal, keys).run()


# Without a person


async def _print(server: Server, conversation_id: str, terminal: Terminal) -> int:
    """Print the run that goes on, or the last one, to its end."""
    conversation: Conversation | None = None
    transcript: Transcript | None = None
    async with aclosing(_patiently(server, conversation_id)) as frames:
        async for frame in frames:
            event = read_event(frame)
            if event is None:
                continue
            if conversation is None or transcript is None:
                assert isinstance(event, SessionEvent)
                conversation = Conversation(event)
                transcript = Transcript(terminal, conversation, asks=False)
                transcript.show_past(event.snapshot.messages)
            else:
                conversation.apply(event)
                transcript.show(event)
            if conversation.active is None and event.type in ("session", "run", "complete"):
                transcript.end_text()
                return _status(conversation.last)
    return FAILED


async def _print_json(server: Server, conversation_id: str, out: TextIO) -> int:
    """Print each event as a line of JSON, to the end of the run that goes on."""
    conversation: Conversation | None = None
    async with aclosing(_patiently(server, conversation_id, catch_up=False)) as frames:
        async for frame in frames:
            out.write(f"{json.dumps(frame, separators=(',', ':'))}\n")  # ASCII: no terminal obeys it
            out.flush()
            event = read_event(frame)
            if event is None:
                continue
            if isinstance(event, SessionEvent):
                conversation = Conversation(event)
            elif conversation is not None:
                conversation.apply(event)
            if conversation is not None and conversation.active is None and event.type in ("session", "run"):
                return _status(conversation.last)
    return FAILED


async def _patiently(server: Server, conversation_id: str, *, catch_up: bool = True) -> AsyncGenerator[Frame]:
    """The frames; without a connection for too long, raises `Lost`."""
    since: float | None = None
    began = False
    async with aclosing(follow(server, conversation_id, catch_up=catch_up)) as items:
        async for item in items:
            if isinstance(item, Lost):
                since = since or time.monotonic()
                if not began or time.monotonic() - since > GIVE_UP_SECONDS:
                    raise item
            elif isinstance(item, Connected):
                since = None
            else:
                began, since = True, None
                yield item


def _status(run: RunView | None) -> int:
    if run is None:
        raise ChatError("Nothing has been asked in this conversation yet.")
    return 0 if run.status == "complete" else FAILED


# With a person


class Chat:
    """One conversation with a person at the keyboard."""

    def __init__(self, server: Server, conversation_id: str, terminal: Terminal, keys: Keyboard) -> None:
        self._server = server
        self._id = conversation_id
        self._terminal = terminal
        self._keys = keys
        self._items: asyncio.Queue[Item] = asyncio.Queue(WAITING_ITEMS)
        self._next: Item | None = None
        """An item that came while a question was answered; it is before those of the queue."""
        self._lost = False
        self._sent = False
        """A prompt was sent whose run has not come yet."""

    async def run(self) -> int:
        listening = asyncio.create_task(self._listen())
        try:
            with quiet_keys(), _interrupts(self._on_interrupt):
                await self._begin()
                await self._go_on()
        except Leave:
            self._say_goodbye()
        finally:
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening
        return 0

    async def _listen(self) -> None:
        try:
            async with aclosing(follow(self._server, self._id)) as items:
                async for item in items:
                    await self._items.put(item)
        except (Gone, Refused) as error:
            await self._items.put(error)

    def _on_interrupt(self) -> None:
        with suppress(asyncio.QueueFull):
            self._items.put_nowait(Interrupted())

    async def _begin(self) -> None:
        first = await self._items.get()
        if isinstance(first, Interrupted):
            raise Leave
        if isinstance(first, AgentKernelError):
            raise first
        assert isinstance(first, dict)
        event = read_event(first)
        if not isinstance(event, SessionEvent):
            raise ChatError("The server has another version of Agent Kernel, whose conversations can't be read.")
        self._conversation = Conversation(event)
        self._transcript = Transcript(self._terminal, self._conversation, asks=True)
        self._answers = Answers(self._transcript, self._keys)
        self._transcript.show_past(event.snapshot.messages)

    async def _go_on(self) -> None:
        while True:
            await asyncio.sleep(SETTLE_SECONDS if self._conversation.asks() else 0)
            while self._next is not None or not self._items.empty():
                item, self._next = self._next or self._items.get_nowait(), None
                await self._take(item)
            asks = self._conversation.asks()
            if asks:
                await self._ask(asks[0], asks)
            elif self._conversation.active is None and not self._sent:
                await self._prompt()
            else:
                await self._take(await self._items.get())

    async def _take(self, item: Item) -> None:
        """Take in what has come, and print it."""
        if isinstance(item, Interrupted):
            await self._offer_to_leave()
        else:
            self._show(item)

    def _show(self, item: Item) -> None:
        """Raises what ends the conversation."""
        if isinstance(item, Lost | Connected):
            self._show_connection(is_lost=isinstance(item, Lost))
        elif isinstance(item, AgentKernelError):
            self._transcript.end_text()
            raise item
        elif isinstance(item, dict) and (event := read_event(item)) is not None:
            self._sent = self._sent and not isinstance(event, RunEvent)
            self._conversation.apply(event)
            self._transcript.show(event)
            self._answers.printed()

    def _show_connection(self, *, is_lost: bool) -> None:
        if is_lost is not self._lost:
            self._transcript.line("Reconnecting …" if is_lost else "Connected again.", DIM, MARGIN)
        self._lost = is_lost

    async def _answer(self, asking: Coroutine[Any, Any, T], still: Callable[[], bool]) -> T | None:
        """The person's answer; `None` once it is not wanted any more. What comes meanwhile is printed above the
        question."""
        question = asyncio.create_task(asking)
        try:
            while True:
                getting = asyncio.create_task(self._items.get())
                await asyncio.wait({question, getting}, return_when=asyncio.FIRST_COMPLETED)
                if not getting.done():
                    await _cancel(getting)
                    return question.result()
                self._next = getting.result()
                if question.done():
                    return question.result()
                await self._keys.editor_closed.wait()
                item, self._next = self._next, None
                if isinstance(item, Interrupted):
                    continue
                if self._would_end(item, still):
                    await _cancel(question)
                    self._show(item)
                    return None
                await above(lambda item=item: self._show_above(item))  # type: ignore[misc]
        finally:
            await _cancel(question)

    def _would_end(self, item: Item, still: Callable[[], bool]) -> bool:
        """Whether a question need not be answered any more, once the conversation has taken this in."""
        if isinstance(item, dict) and (event := read_event(item)) is not None:
            self._conversation.apply(event)
            return not still()
        return isinstance(item, AgentKernelError) and not isinstance(item, Lost)

    def _show_above(self, item: Item) -> None:
        self._show(item)
        self._transcript.end_text()  # the question is drawn on a line of its own

    async def _ask(self, ask: Ask, asks: list[Ask]) -> None:
        def still() -> bool:
            return any(one.key == ask.key for one in self._conversation.asks())

        answer = await self._answer(self._answers.ask(ask, asks), still)
        if answer == INTERRUPT:
            await self._offer_to_leave()
        elif isinstance(answer, list):
            for request in answer:
                await self._send(request)

    async def _send(self, request: Request) -> None:
        """Send an answer. It counts when the server has taken it; the events say so."""
        self._conversation.answered.update(request.answers)
        try:
            path = request.path.replace("{conversation_id}", quote(self._id, safe=""))
            if "{approval_id}" in path:
                path = path.replace("{approval_id}", await self._approval_id(request))
            await self._server.post(f"agent-kernel/api/{path}", request.body)
        except Refused as refused:
            state = refused.body.get("state")
            if state in (None, "awaiting_approval", "executing", "unknown"):
                self._conversation.answered.difference_update(request.answers)
            code = {403: "ACCESS_DENIED", 409: "CONFLICT"}.get(refused.status, "INVALID_FORMAT")
            said = str(refused).removeprefix("Already decided: ")
            self._transcript.problem(code, f"{said[:1].upper()}{said[1:]}")
        except Lost as lost:
            self._conversation.answered.difference_update(request.answers)
            self._transcript.line(f"{lost} Nothing is known of your answer; you are asked again.", "", MARGIN)

    async def _approval_id(self, request: Request) -> str:
        """The call's id beyond the conversation. Events of calls that nobody decided on do not have it."""
        call_id = request.answers[0].partition(" ")[2]
        call = self._conversation.calls[call_id]
        if call.approval_id:
            return call.approval_id
        waits = await self._server.waits(call.run_id)
        found = next((one.approval_id for one in waits if one.tool_call_id == call_id), None)
        if found is None:
            raise Refused(409, {"message": "This call waits for no answer any more.", "state": "success"})
        return found

    async def _prompt(self) -> None:
        last = self._conversation.last
        failed = last is not None and last.error is not None and last.error.code == "LLM_ERROR"
        note = f"{RETRY}: {words.ACTIONS['tryAgain']}. " if failed else ""
        asking = self._keys.line(">", note=f"{note}Ask for something; Ctrl+D leaves.", drop=False)
        text = await self._answer(_or_leave(asking), lambda: self._conversation.active is None)
        if text is None:
            return
        if text == INTERRUPT:
            raise Leave
        if not text.strip():
            return
        self._sent = True
        conversation = f"agent-kernel/api/conversations/{quote(self._id, safe='')}"
        try:
            if text.strip() == RETRY and last is not None:
                await self._server.post(f"{conversation}/runs/{last.run_id}/retry")
            elif last is None:
                await self._server.post(f"{conversation}/runs", {"content": text, "watched": True})
            else:
                await self._server.post(f"{conversation}/messages", {"content": text})
        except (Refused, Lost) as error:
            self._sent = False
            self._transcript.problem("INVALID_FORMAT", str(error))

    async def _offer_to_leave(self) -> None:
        """Ctrl+C: stop the run, or leave; a second one leaves. Leaving stops nothing."""
        run = self._conversation.active
        if run is None:
            raise Leave

        def still() -> bool:
            active = self._conversation.active
            return active is not None and active.run_id == run.run_id

        self._transcript.end_text()
        choices = {"s": words.ACTIONS["stop"], "l": "Leave: the run goes on", "g": "Go on"}
        if run.delay is not None:
            choices = {"n": words.ACTIONS["tryNow"], **choices}
        asking = self._keys.key("Stop the run, or leave?", choices, escape="g", guard=False)
        pressed = await self._answer(asking, still)
        if pressed in ("l", INTERRUPT):
            raise Leave
        if pressed in ("s", "n"):
            route = "cancel" if pressed == "s" else "try-now"
            await self._send(Request(f"conversations/{{conversation_id}}/runs/{run.run_id}/{route}", {}, ()))

    def _say_goodbye(self) -> None:
        if not hasattr(self, "_transcript"):
            return
        goes_on = "The run goes on. " if self._conversation.active is not None else ""
        self._transcript.line(f"{goes_on}Come back: agent-kernel chat {one_line(self._id)}", DIM)


async def _or_leave(asking: Coroutine[Any, Any, str | None]) -> str:
    """Raises `Leave` for no line at all."""
    if (text := await asking) is None:
        raise Leave
    return text


async def _cancel(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    with suppress(asyncio.CancelledError, Leave):
        await task


@contextmanager
def _interrupts(on_interrupt: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    before = signal.signal(signal.SIGINT, lambda *_: loop.call_soon_threadsafe(on_interrupt))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
