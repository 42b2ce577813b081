"""`agent-kernel chat`: follows a conversation, asks the person what waits, and sends the answers.

What is open is in the server's view of the conversation, which is asked for when an event may have changed it. Events
are only printed.
"""

import argparse
import asyncio
import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from math import inf
from pathlib import Path
from typing import Any, TextIO

from agent_kernel.errors import AgentKernelError
from agent_kernel.options import INTERRUPTED
from agent_kernel.protocol.views import RunView, ToolCallView
from agent_kernel.record import words
from agent_kernel.record.story import arguments_of
from agent_kernel.terminal.choose import choose_conversation, choose_server
from agent_kernel.terminal.connection import API, ChatError, Frame, Lost, Refused, Server, follow, path_of
from agent_kernel.terminal.conversation import (
    Ask,
    active_run,
    earlier_runs,
    print_run,
    read_event,
    read_view,
    waiting,
)
from agent_kernel.terminal.lines import Terminal, forget_typed, one_line, typed_line
from agent_kernel.terminal.transcript import Transcript, question_of
from agent_kernel.tools.builtin.declarations import ASK_USER

ENDLESS = 1_000_000
"""The columns of an output that is no terminal: its lines are not wrapped."""
SETTLE_SECONDS = 0.05
"""Calls of one step come one after another, and are shown before the first is asked about."""
RETRY = "/retry"
ACTIONS, CARD = words.ACTIONS, words.CARD


def run_command(options: argparse.Namespace) -> int:
    """Returns the exit code. Raises `AgentKernelError`."""
    out = sys.stdout
    if isinstance(out, io.TextIOWrapper):
        out.reconfigure(errors="replace")  # a terminal of another encoding shows what it can
    try:
        return asyncio.run(run_chat(options, out))
    except KeyboardInterrupt:
        return INTERRUPTED


async def run_chat(options: argparse.Namespace, out: TextIO) -> int:
    """Returns the exit code. Raises `ChatError`, `Lost`, `Refused`."""
    terminal = Terminal(out, lambda: shutil.get_terminal_size().columns if out.isatty() else ENDLESS)
    asks = not options.json and out.isatty() and sys.stdin.isatty()
    async with AsyncExitStack() as stack:
        chat = Chat(terminal) if asks else None
        if chat is not None:
            stack.callback(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, chat.interrupt))
        pick = chat.pick if chat is not None else None
        try:
            server = await choose_server(options, stack)
            conversation_id = await choose_conversation(options, server, pick)
            if chat is not None:
                await chat.run(server, conversation_id)
        except Leave:
            return 0
        return await print_run(server, conversation_id, terminal, out if options.json else None)


class Leave(Exception):
    """The person leaves. That stops nothing."""


class Interrupted(Exception):
    """The person pressed Ctrl+C."""


class Changed(Exception):
    """What is asked has changed: it was answered elsewhere, or there is more to ask."""


Item = tuple[int, Frame] | AgentKernelError | Interrupted | asyncio.Future[str]
"""A frame, with the number of the last event that has come; an end of the connection; Ctrl+C; a typed line."""


class Chat:
    """One conversation with a person at the keyboard. What comes from the server and from the person comes in one
    queue, and what comes while something is asked is printed after that."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._loop = asyncio.get_running_loop()
        self._items: asyncio.Queue[Item] = asyncio.Queue()
        self._later: deque[Item] = deque()
        """What came while something was asked."""
        self._is_editing = False
        self._is_lost = False
        self._seq = 0
        """The last event that was printed."""
        self._is_stale = True
        """Whether the view has to be read again."""
        self._asked = ""
        """The key of what is asked."""
        self._answered: set[str] = set()
        """The keys of what was answered here, and is not asked again."""
        self._shown: set[str] = set()
        """The keys of what was shown to be asked."""
        self._lines_below = 0
        """How many lines there were when something was last shown to be asked."""

    def interrupt(self, *_: object) -> None:
        if not self._is_editing:
            self._loop.call_soon_threadsafe(self._items.put_nowait, Interrupted())

    async def run(self, server: Server, conversation_id: str) -> None:
        """Raises `Leave` at the end, `ChatError`, `Lost`, `Refused`."""
        self._server, self._id, self._path = server, conversation_id, path_of(conversation_id)
        self._view = await read_view(server, conversation_id)
        earlier = earlier_runs(self._view)
        self._transcript = Transcript(self._terminal, earlier=earlier, asks=True)
        if earlier:
            self._transcript.line(f"Earlier prompts of this conversation, not shown: {len(earlier)}.")
        listening = asyncio.create_task(self._listen())
        try:
            while True:
                with suppress(Changed):
                    try:
                        await self._step()
                    except Interrupted:
                        await self._offer_to_leave()
        except Leave:
            goes_on = "The run goes on. " if active_run(self._view) is not None else ""
            self._transcript.line(f"{goes_on}Come back: agent-kernel chat {self._id}")
            raise
        finally:
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening

    async def _listen(self) -> None:
        try:
            async with aclosing(follow(self._server, self._id, 0, inf)) as items:
                async for item in items:
                    self._items.put_nowait(item)
        except AgentKernelError as error:
            self._items.put_nowait(ChatError(str(error)))

    async def _step(self) -> None:
        """Print what has come; then ask what waits, or wait for more."""
        self._take_all()
        if self._is_lost:
            self._take(await self._items.get())
        elif self._is_stale:
            await asyncio.sleep(SETTLE_SECONDS)
            if self._items.empty():
                await self._read()
        elif self._view.last_seq > self._seq or (active_run(self._view) is not None and not self._asks()):
            self._take(await self._items.get())
        elif asks := self._asks():
            try:
                await self._answer(asks)
            except Changed:
                if self._asked not in self._asks():
                    self._transcript.line("This was answered elsewhere, and is not asked any more.")
        else:
            await self._prompt()

    def _asks(self) -> dict[str, Ask]:
        return {key: ask for key, ask in waiting(self._view).items() if key not in self._answered}

    def _may_change(self, frame: Frame) -> bool:
        """Whether an event may change what waits, or the run that has the floor."""
        match frame["type"]:
            case "session" | "run" | "approval_request" | "tool_answered":
                return True
            case "tool_start":
                return bool(frame["tool_name"] == ASK_USER)
            case "approval_response" | "tool_complete":
                is_asked = any(key.startswith(f"{frame['tool_call_id']} ") for key in waiting(self._view))
                return is_asked or frame.get("state") == "unknown"
            case _:
                return False

    async def _read(self) -> bool:
        """Read what is open, where the server can be reached. Whether any of that has changed."""
        before = self._asks().keys(), active_run(self._view) is None
        with suppress(Lost):
            self._view = await read_view(self._server, self._id)
            self._is_stale = False
        return before != (self._asks().keys(), active_run(self._view) is None)

    def _take_all(self) -> None:
        while self._later or not self._items.empty():
            self._take(self._later.popleft() if self._later else self._items.get_nowait())

    def _take(self, item: Item) -> None:
        """Take in what has come, and print it. Raises what ends the conversation, and `Interrupted`."""
        if isinstance(item, asyncio.Future):
            return  # a line for a question that is not asked any more decides nothing
        if isinstance(item, Lost):
            if not self._is_lost:
                self._transcript.line("Reconnecting …")
            self._is_lost = True
        elif isinstance(item, Exception):
            self._terminal.end_line()
            raise item
        else:
            seq, frame = item
            if self._is_lost:
                self._transcript.line("Connected again.")
            if frame["type"] == "session" and seq > self._seq:
                self._transcript.line("Some of what happened is not shown.")
            self._is_lost, self._seq = False, max(seq, self._seq)
            self._is_stale = self._is_stale or self._may_change(frame)
            if (event := read_event(frame)) is not None:
                self._transcript.show(event)

    # Questions

    async def _line(self, question: str) -> str:
        """What the person types. Raises `Changed`, `Interrupted`, `Leave`."""
        forget_typed()
        self._terminal.ask(question)
        typed = asyncio.create_task(typed_line())
        typed.add_done_callback(self._items.put_nowait)
        try:
            while (item := await self._items.get()) is not typed:
                if isinstance(item, Interrupted):
                    raise item
                if not isinstance(item, asyncio.Future):
                    self._later.append(item)
                    if isinstance(item, ChatError):
                        raise Changed
                    if isinstance(item, tuple) and self._may_change(item[1]) and await self._read():
                        raise Changed
        finally:
            typed.cancel()
        if not typed.result():
            raise Leave
        self._terminal.typed()
        return typed.result().strip()

    async def _choose(self, question: str, choices: Mapping[str, str]) -> str:
        apart = "\n" if "1" in choices else "  "
        named = apart.join(f"[{key}] {name}" for key, name in choices.items())
        while (typed := await self._line(f"{question}\n{named}")) not in choices:
            self._terminal.line(f"Type one of {', '.join(choices)}, and Enter.")
        return typed

    async def pick(self, question: str, rows: Sequence[str]) -> int:
        """One of the rows, by its number. Raises `Leave`."""
        for number, row in enumerate(rows, 1):
            self._terminal.line(f"{number:>2}  {row}")
        try:
            while True:
                typed = await self._line(f"{question} 1 to {len(rows)}; Ctrl+D leaves.")
                if typed.isdecimal() and 1 <= int(typed) <= len(rows):
                    return int(typed) - 1
        except Interrupted:
            raise Leave from None

    async def _prompt(self) -> None:
        last = self._view.runs[-1] if self._view.runs else None
        failed = last is not None and last.error is not None and last.error.code == "LLM_ERROR"
        self._terminal.gap()
        try:
            note = f"{RETRY}: {ACTIONS['tryAgain']}. " if failed else ""
            text = await self._line(f"{note}Ask for something; Ctrl+D leaves.")
        except Interrupted:
            raise Leave from None
        if text == RETRY and last is not None:
            await self._send(f"{self._path}/runs/{last.run_id}/retry", {})
        elif text:
            self._transcript.typed = text
            how = {"content": text, "watched": True} if last is None else {"content": text}
            await self._send(f"{self._path}/{'runs' if last is None else 'messages'}", how)

    async def _offer_to_leave(self) -> None:
        """Ctrl+C: stop the run, or leave; a second one leaves."""
        await self._read()
        self._asked = ""
        run = active_run(self._view)
        if run is None:
            raise Leave
        choices = {"n": ACTIONS["tryNow"]} if run.delay is not None else {}
        choices |= {"s": ACTIONS["stop"], "l": "Leave: the run goes on", "g": "Go on"}
        try:
            pressed = await self._choose("Stop the run, or leave?", choices)
        except Interrupted:
            raise Leave from None
        if pressed == "l":
            raise Leave
        if pressed != "g":
            await self._send(f"{self._path}/runs/{run.run_id}/{'cancel' if pressed == 's' else 'try-now'}", {})

    async def _send(self, path: str, body: Mapping[str, Any]) -> None:
        """Send an answer to what is asked. It counts when the server has taken it; the events say so."""
        self._is_stale = True
        try:
            await self._server.post(f"{API}/{path}", body)
        except Refused as refused:
            self._transcript.line(str(refused))
        except Lost as lost:
            self._transcript.line(f"{lost} Nothing is known of what you sent.")
        else:
            self._answered.add(self._asked)

    # What waits

    async def _answer(self, asks: Mapping[str, Ask]) -> None:
        self._asked, ask = next(iter(asks.items()))
        calls = {key: one for key, one in asks.items() if isinstance(one, ToolCallView)}
        self._show_waiting(calls)
        if isinstance(ask, RunView):
            await self._pause(ask)
        elif ask.state == "awaiting_approval":
            await self._approval(ask, {key: one for key, one in calls.items() if one.state == ask.state})
        elif ask.state == "unknown":
            question = f"{CARD['look']} {CARD['outcomeNote']}"
            pressed = await self._choose(question, {"r": ACTIONS["runAgain"], "c": ACTIONS["goOn"]})
            answer = {"answer": "retry" if pressed == "r" else "continue"}
            await self._send(f"approvals/{ask.approval_id}/outcome", answer)
        else:
            await self._question(ask)

    def _show_waiting(self, calls: Mapping[str, ToolCallView]) -> None:
        """What is asked is right above the question, and so are all calls that one answer could decide on."""
        is_below = self._terminal.lines == self._lines_below
        for key, call in calls.items():
            if key not in self._shown or (key == self._asked and not is_below):
                self._transcript.show_call(call)
                self._shown.add(key)
        self._lines_below = self._terminal.lines

    async def _approval(self, call: ToolCallView, calls: Mapping[str, ToolCallView]) -> None:
        choices = {"a": ACTIONS["approve"], "d": ACTIONS["deny"], "e": ACTIONS["edit"]}
        if call.rules and any(scope in words.SCOPES for scope in call.scopes):
            choices["l"] = f"{ACTIONS['allow']}…"
        count = ""
        if len(calls) > 1:
            count = f" (1 of {len(calls)})"
            choices |= {"A": f"{ACTIONS['approveAll']} ({len(calls)})", "D": ACTIONS["denyAll"]}
        match await self._choose(f"{one_line(call.tool_name, 60)}{count}: {CARD['exactly']}", choices):
            case "a":
                await self._decide(call, approved=True)
            case "d":
                reason = await self._line(f"{CARD['reason']} ({CARD['reasonNote']}):")
                await self._decide(call, approved=False, reason=reason[:10_000] or None)
            case "e":
                await self._edit(call)
            case "l":
                await self._always(call)
            case pressed:
                for self._asked, one in calls.items():
                    await self._decide(one, approved=pressed == "A")

    async def _decide(self, call: ToolCallView, *, approved: bool, **fields: Any) -> None:
        """The digest is that of what was on screen: nothing else is decided on."""
        await self._send(f"approvals/{call.approval_id}", {"approved": approved, "digest": call.digest, **fields})

    async def _edit(self, call: ToolCallView) -> None:
        before, suffix, rebuild = editable(call)
        self._is_editing = True
        try:
            text = await asyncio.to_thread(edit, before, suffix)
        finally:
            self._is_editing = False
        if text is None:
            self._transcript.line("The editor failed. Nothing was changed; $EDITOR names another one.")
        elif text.rstrip("\n") == before.rstrip("\n"):
            self._transcript.line("Nothing was changed.")
        else:
            self._transcript.show_code(text)
            choices = {"a": ACTIONS["approve"], "b": ACTIONS["back"]}
            if await self._choose(CARD["yourVersion"], choices) == "a":
                await self._decide(call, approved=True, edited_input=rebuild(text))

    async def _always(self, call: ToolCallView) -> None:
        """Which rule, and where: it is shown as it will be saved, before it is saved."""
        offers = [one_line(f"{one.label} ({one.note})" if one.note else one.label, 120) for one in call.rules[:9]]
        scopes = [scope for scope in words.SCOPES if scope in call.scopes]
        places = [f"{words.SCOPES[scope]['name']} ({words.SCOPES[scope]['note']})" for scope in scopes]
        back = {"b": ACTIONS["back"]}
        if (what := await self._choose("What?", _numbered(offers) | back)) == "b":
            return
        if (where := await self._choose("Where?", _numbered(places) | back)) == "b":
            return
        rule, scope = call.rules[int(what) - 1], scopes[int(where) - 1]
        self._transcript.line(f"Rule: {rule.text} {words.SCOPES[scope]['rule']}")
        if await self._choose(CARD["rulesWin"], {"s": ACTIONS["saveRule"]} | back) == "s":
            await self._decide(call, approved=True, scope=scope, rule=rule.text)

    async def _question(self, call: ToolCallView) -> None:
        _, choices = question_of(call)
        note = "A number chooses. " if choices else ""
        text = await self._line(f"{CARD['yourAnswer']}: {note}An empty line: {ACTIONS['skip']}")
        path = f"approvals/{call.approval_id}"
        if text:
            await self._send(f"{path}/result", {"output": _numbered(choices).get(text, text)})
        elif await self._choose(CARD["skipNote"], {"s": ACTIONS["skip"], "b": ACTIONS["back"]}) == "s":
            await self._send(f"{path}/cancel", {})

    async def _pause(self, run: RunView) -> None:
        """The event of the pause has said what was reached."""
        pause = run.paused
        assert pause is not None
        path, without = f"{self._path}/runs/{run.run_id}", pause.unpriced and not pause.repeated
        go_on = ACTIONS["goOnWithout" if without else "goOn"]
        if await self._choose(CARD["orStop"], {"c": go_on, "s": ACTIONS["stop"]}) == "s":
            await self._send(f"{path}/cancel", {})
            return
        add: dict[str, float] = {}
        for name in () if without else pause.reached:
            typed = await self._line(f"{words.LIMITS[name]['add']}:")
            try:
                value = float(typed.lstrip("$").replace(",", "")) * (60 if name == "seconds" else 1)
                add[name] = value if name == "usd" else int(value)
            except (ValueError, OverflowError):
                self._transcript.line("Write a number above 0.")
                return
        await self._send(f"{path}/budget", {"pause_id": pause.pause_id, "add": add, "without_usd": without})


def _numbered(names: Sequence[str]) -> dict[str, str]:
    return {str(number): name for number, name in enumerate(names, 1)}


def editable(call: ToolCallView) -> tuple[str, str, Callable[[str], Any]]:
    """The text that is edited, its file's ending, and how the arguments are made of it."""
    arguments = arguments_of(call) or {}
    name, suffix = {"run_python": ("code", ".py"), "run_shell": ("command", ".sh")}.get(call.tool_name, ("", ""))
    if not isinstance(arguments.get(name), str):
        return json.dumps(arguments, indent=2, ensure_ascii=False) + "\n", ".json", str.strip
    before = arguments[name]
    last = "" if before.endswith("\n") else "\n"
    return before + last, suffix, lambda text: {**arguments, name: text.removesuffix(last)}


def edit(text: str, suffix: str) -> str | None:
    """The text as the person leaves it in $VISUAL or $EDITOR; `None` where the editor failed."""
    usual = "notepad" if os.name == "nt" else "vi"
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or usual)
    with tempfile.TemporaryDirectory(prefix="agent-kernel-") as folder:
        file = Path(folder) / f"call{suffix}"
        file.write_text(text, encoding="utf-8")
        try:
            done = subprocess.run([*command, str(file)], check=False)
        except OSError:
            return None
        return file.read_text(encoding="utf-8", errors="replace") if done.returncode == 0 else None
