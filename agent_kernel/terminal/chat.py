"""`agent-kernel chat`: follows a conversation, asks the person what waits, and sends the answers."""

import asyncio
import os
import shlex
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
from urllib.parse import quote

from agent_kernel.errors import AgentKernelError
from agent_kernel.protocol.events import (
    ApprovalRequestEvent,
    ApprovalResponseEvent,
    RunEvent,
    ServerEvent,
    SessionEvent,
    ToolAnsweredEvent,
    ToolCompleteEvent,
)
from agent_kernel.protocol.figures import money
from agent_kernel.protocol.views import RunView, ToolCallView
from agent_kernel.record import words
from agent_kernel.record.story import arguments_of
from agent_kernel.terminal.choose import Wanted, choose_conversation, choose_server
from agent_kernel.terminal.connection import ChatError, Lost, Refused, Server, follow
from agent_kernel.terminal.conversation import Ask, key_of
from agent_kernel.terminal.lines import Keyboard, Terminal, Typed, code, one_line
from agent_kernel.terminal.script import begun, print_json, print_run, read_event
from agent_kernel.terminal.transcript import CODE_MARGIN, Transcript, pretty, question_of

SETTLE_SECONDS = 0.05
"""Calls of one step come one after another, and are shown before the first is asked about."""
RETRY = "/retry"
ACTIONS, CARD = words.ACTIONS, words.CARD
CHANGES = (RunEvent, ApprovalRequestEvent, ApprovalResponseEvent, ToolCompleteEvent, ToolAnsweredEvent, SessionEvent)
"""The events that may change what is asked."""


async def run_chat(wanted: Wanted, *, as_json: bool, out: TextIO, columns: Callable[[], int]) -> int:
    """Returns the exit code. Raises `ChatError`, `Lost`, `Refused`."""
    terminal = Terminal(out, columns)
    asks = not as_json and out.isatty() and sys.stdin.isatty()
    async with AsyncExitStack() as stack:
        chat = Chat(terminal) if asks else None
        if chat is not None:
            stack.callback(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, chat.interrupt))
        pick = chat.pick if chat is not None else None
        try:
            server = await choose_server(wanted, stack, pick)
            conversation_id = await choose_conversation(wanted, server, pick)
            if chat is not None:
                await chat.run(server, conversation_id)
        except Leave:
            return 0
        if as_json:
            return await print_json(server, conversation_id, out)
        return await print_run(server, conversation_id, terminal)


class Leave(Exception):
    """The person leaves. That stops nothing."""


class Interrupted(Exception):
    """The person pressed Ctrl+C."""


class Changed(Exception):
    """What is asked may have changed: it was answered elsewhere, or there is more to ask."""


Item = ServerEvent | AgentKernelError | Interrupted | Typed | None
"""`None`: there is a connection again."""


class Chat:
    """One conversation with a person at the keyboard. What comes from the server and from the person comes in one
    queue, and what comes while something is asked is printed after that."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._loop = asyncio.get_running_loop()
        self._items: asyncio.Queue[Item] = asyncio.Queue()
        self._later: deque[Item] = deque()
        """What came while something was asked."""
        self._keyboard = Keyboard(self._items.put_nowait)
        self._is_editing = False
        self._is_lost = False
        self._sent = False
        """A prompt was sent whose run has not come yet."""
        self._shown: set[str] = set()
        """The keys of the questions whose cards were shown."""
        self._asked = ""
        """The id of the call that is asked about."""
        self._below_card = 0
        """How many lines there were when the last card was shown."""

    def interrupt(self, *_: object) -> None:
        if not self._is_editing:
            self._loop.call_soon_threadsafe(self._items.put_nowait, Interrupted())

    async def run(self, server: Server, conversation_id: str) -> None:
        """Raises `Leave` at the end, `ChatError`, `Lost`, `Refused`."""
        self._server, self._id = server, conversation_id
        listening = asyncio.create_task(self._listen())
        try:
            first = await self._items.get()
            if isinstance(first, Exception):
                raise Leave if isinstance(first, Interrupted) else first
            self._conversation = begun(first)
            self._transcript = Transcript(self._terminal, self._conversation, asks=True)
            await self._converse()
        finally:
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening

    async def _listen(self) -> None:
        try:
            async with aclosing(follow(self._server, self._id, 0, inf)) as items:
                async for item in items:
                    event = read_event(item) if isinstance(item, dict) else item
                    if event is not None or item is None:
                        self._items.put_nowait(event)
        except AgentKernelError as error:
            self._items.put_nowait(ChatError(str(error)))

    async def _converse(self) -> None:
        try:
            while True:
                with suppress(Changed):
                    try:
                        await self._step()
                    except Interrupted:
                        await self._offer_to_leave()
        except Leave:
            goes_on = "The run goes on. " if self._conversation.active is not None else ""
            self._transcript.line(f"{goes_on}Come back: agent-kernel chat {self._id}")
            raise

    async def _step(self) -> None:
        """Print what has come; then ask what waits, or wait for more."""
        self._take_all()
        asks = self._conversation.waits() if self._conversation.is_caught_up else []
        is_idle = self._conversation.is_caught_up and self._conversation.active is None and not self._sent
        if not asks and not is_idle:
            self._take(await self._items.get())
            return
        await asyncio.sleep(SETTLE_SECONDS)
        if not self._items.empty():
            return
        if is_idle:
            await self._prompt()
            return
        try:
            await self._answer(asks[0], asks)
        except Changed:
            self._take_all()
            if key_of(asks[0]) not in map(key_of, self._conversation.waits()):
                self._transcript.line("This was answered elsewhere, and is not asked any more.")

    def _take_all(self) -> None:
        while self._later or not self._items.empty():
            self._take(self._later.popleft() if self._later else self._items.get_nowait())

    def _take(self, item: Item) -> None:
        """Take in what has come, and print it. Raises what ends the conversation, and `Interrupted`."""
        if isinstance(item, Lost | None):
            if self._is_lost is not isinstance(item, Lost):
                self._transcript.line("Connected again." if self._is_lost else "Reconnecting …")
            self._is_lost = isinstance(item, Lost)
        elif isinstance(item, Exception):
            self._terminal.end_line()
            raise item
        elif not isinstance(item, Typed):  # a line for a question that is not asked any more decides nothing
            self._sent = self._sent and not isinstance(item, RunEvent)
            self._conversation.apply(item)
            self._transcript.show(item)

    # Questions

    async def _line(self, question: str, changes: tuple[type, ...] = CHANGES) -> str:
        """What the person types. Raises `Changed` with an event of these types, `Interrupted`, `Leave`."""
        self._keyboard.ask()
        self._terminal.ask(question)
        while True:
            item = await self._items.get()
            if isinstance(item, Typed):
                self._terminal.typed()
                if not item.text:
                    raise Leave
                if item.question == self._keyboard.question:
                    return item.text.strip()
                return await self._line(question, changes)  # it was begun before this was asked
            if isinstance(item, Interrupted):
                raise item
            if not (isinstance(item, Lost) and self._is_lost):
                self._later.append(item)
                of_call = getattr(item, "tool_call_id", None) if not isinstance(item, ApprovalRequestEvent) else None
                if isinstance(item, (*changes, AgentKernelError, type(None))) and of_call in (None, self._asked):
                    raise Changed

    async def _choose(self, question: str, choices: Mapping[str, str], changes: tuple[type, ...] = CHANGES) -> str:
        apart = "\n" if "1" in choices else "  "
        named = apart.join(f"[{key}] {name}" for key, name in choices.items())
        while (typed := await self._line(f"{question}\n{named}", changes)) not in choices:
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
        last = self._conversation.last
        failed = last is not None and last.error is not None and last.error.code == "LLM_ERROR"
        note = f"{RETRY}: {ACTIONS['tryAgain']}. " if failed else ""
        self._terminal.gap()
        try:
            text = await self._line(f"{note}Ask for something; Ctrl+D leaves.")
        except Interrupted:
            raise Leave from None
        if not text:
            return
        path, body = "messages", dict[str, Any](content=text)
        if text == RETRY and last is not None:
            path, body = f"runs/{last.run_id}/retry", {}
        elif last is None:
            path, body = "runs", {"content": text, "watched": True}
        self._sent, self._transcript.typed = True, text
        self._sent = await self._send(f"{self._here}/{path}", body)

    @property
    def _here(self) -> str:
        return f"conversations/{quote(self._id, safe='')}"

    async def _offer_to_leave(self) -> None:
        """Ctrl+C: stop the run, or leave; a second one leaves."""
        while (run := self._conversation.active) is not None:
            choices = {"n": ACTIONS["tryNow"]} if run.delay is not None else {}
            choices |= {"s": ACTIONS["stop"], "l": "Leave: the run goes on", "g": "Go on"}
            try:
                pressed = await self._choose("Stop the run, or leave?", choices, (RunEvent,))
            except Interrupted:
                break
            except Changed:
                self._take_all()
                continue
            if pressed == "l":
                break
            if pressed != "g":
                await self._send(f"{self._here}/runs/{run.run_id}/{'cancel' if pressed == 's' else 'try-now'}", {})
            return
        raise Leave

    async def _send(self, path: str, body: Mapping[str, Any], *asks: Ask) -> bool:
        """Send an answer. It counts when the server has taken it; the events say so."""
        try:
            await self._server.post(f"agent-kernel/api/{path}", body)
        except Refused as refused:
            if refused.body.get("state") not in (None, "awaiting_approval", "executing", "unknown"):
                self._conversation.answered.update(map(key_of, asks))
            code = {403: "ACCESS_DENIED", 409: "CONFLICT"}.get(refused.status, "INVALID_FORMAT")
            title = next(title for name, title in words.PROBLEMS.items() if name == code)
            self._transcript.problem(title, str(refused).removeprefix("Already decided: "))
        except Lost as lost:
            self._transcript.line(f"{lost} Nothing is known of what you sent.")
        else:
            self._conversation.answered.update(map(key_of, asks))
            return True
        return False

    # What waits

    async def _answer(self, ask: Ask, asks: Sequence[Ask]) -> None:
        calls = [one for one in asks if isinstance(one, ToolCallView) and one.state == "awaiting_approval"]
        self._show_waiting(ask, calls)
        self._asked = ask.tool_call_id if isinstance(ask, ToolCallView) else ""
        if isinstance(ask, RunView):
            await self._pause(ask)
        elif ask.state == "awaiting_approval":
            await self._approval(ask, calls)
        elif ask.state == "unknown":
            pressed = await self._choose(
                f"{CARD['look']} {CARD['outcomeNote']}", {"r": ACTIONS["runAgain"], "c": ACTIONS["goOn"]}
            )
            body = {"answer": "retry" if pressed == "r" else "continue"}
            await self._send(f"approvals/{await self._approval_id(ask)}/outcome", body, ask)
        else:
            await self._question(ask)

    def _show_waiting(self, ask: Ask, calls: Sequence[ToolCallView]) -> None:
        """What is asked is right above the question, and so are all calls that one answer could decide on."""
        unseen: list[Ask] = [one for one in calls if key_of(one) not in self._shown]
        if key_of(ask) in self._shown and not unseen and self._terminal.lines == self._below_card:
            return
        if len(calls) > 1 and unseen:
            self._terminal.gap()
            self._transcript.line(CARD["several"].format(count=len(calls)))
        for one in unseen if ask in unseen else [*unseen, ask]:
            self._shown.add(key_of(one))
            if isinstance(one, RunView):
                self._transcript.show_pause(one)
            else:
                self._transcript.show_call(one)
        self._below_card = self._terminal.lines

    async def _approval(self, call: ToolCallView, calls: Sequence[ToolCallView]) -> None:
        choices = {"a": ACTIONS["approve"], "d": ACTIONS["deny"], "e": ACTIONS["edit"]}
        if call.rules and any(scope in words.SCOPES for scope in call.scopes):
            choices["l"] = f"{ACTIONS['allow']}…"
        if call.preview is not None and call.preview.left_out:
            choices["v"] = "Show all"
        place = ""
        if len(calls) > 1:
            place = f" ({calls.index(call) + 1} of {len(calls)})"
            choices |= {"A": f"{ACTIONS['approveAll']} ({len(calls)})", "D": ACTIONS["denyAll"]}
        match await self._choose(f"{one_line(call.tool_name, 60)}{place}: {CARD['exactly']}", choices):
            case "a":
                await self._decide(call, approved=True)
            case "d":
                reason = await self._line(f"{CARD['reason']} ({CARD['reasonNote']}):")
                await self._decide(call, approved=False, **({"reason": reason[:10_000]} if reason else {}))
            case "e":
                await self._edit(call)
            case "l":
                await self._always(call)
            case "v":
                self._transcript.show_everything(call)
                self._below_card = self._terminal.lines
            case pressed:
                for one in calls:
                    await self._decide(one, approved=pressed == "A")

    async def _decide(self, call: ToolCallView, *, approved: bool, **fields: Any) -> None:
        """The digest is that of what was on screen: nothing else is decided on."""
        body = {"approved": approved, "digest": call.digest, **fields}
        await self._send(f"approvals/{call.approval_id}", body, call)

    async def _edit(self, call: ToolCallView) -> None:
        before, suffix, rebuild = editable(call)
        text = before
        while True:
            self._is_editing = True
            try:
                edited = await asyncio.to_thread(edit, text, suffix)
            finally:
                self._is_editing = False
            if edited is None:
                self._transcript.line("The editor failed. Nothing was changed; $EDITOR names another one.")
                return
            text = edited
            if text.rstrip("\n") == before.rstrip("\n"):
                self._transcript.line("Nothing was changed.")
                return
            self._terminal.line(code(text.removesuffix("\n")), CODE_MARGIN)
            choices = {"a": ACTIONS["approve"], "e": ACTIONS["edit"], "b": ACTIONS["back"]}
            pressed = await self._choose(CARD["yourVersion"], choices)
            if pressed == "a":
                await self._decide(call, approved=True, edited_input=rebuild(text))
            if pressed != "e":
                return

    async def _always(self, call: ToolCallView) -> None:
        """Which rule, and where: it is shown as it will be saved, before it is saved."""
        back = {"b": ACTIONS["back"]}
        what = {
            str(n): one_line(f"{offer.label} ({offer.note})" if offer.note else offer.label, 120)
            for n, offer in enumerate(call.rules[:9], 1)
        }
        if (pressed := await self._choose("What?", what | back)) == "b":
            return
        rule = call.rules[int(pressed) - 1]
        scopes = [scope for scope in words.SCOPES if scope in call.scopes]
        names = {scope: f"{words.SCOPES[scope]['name']} ({words.SCOPES[scope]['note']})" for scope in scopes}
        if (pressed := await self._choose("Where?", {str(n): names[s] for n, s in enumerate(scopes, 1)} | back)) == "b":
            return
        scope = scopes[int(pressed) - 1]
        self._transcript.line(f"Rule: {rule.text} {words.SCOPES[scope]['rule']}")
        if await self._choose(CARD["rulesWin"], {"s": ACTIONS["saveRule"]} | back) == "s":
            await self._decide(call, approved=True, scope=scope, rule=rule.text)

    async def _question(self, call: ToolCallView) -> None:
        _, choices = question_of(call)
        note = "A number chooses. " if choices else ""
        text = await self._line(f"{CARD['yourAnswer']}: {note}An empty line: {ACTIONS['skip']}")
        path = f"approvals/{await self._approval_id(call)}"
        if not text:
            if await self._choose(CARD["skipNote"], {"s": ACTIONS["skip"], "b": ACTIONS["back"]}) == "s":
                await self._send(f"{path}/cancel", {}, call)
            return
        if text.isdecimal() and 1 <= int(text) <= len(choices):
            text = choices[int(text) - 1]
        await self._send(f"{path}/result", {"output": text}, call)

    async def _approval_id(self, call: ToolCallView) -> str:
        """The call's id beyond the conversation. Events of calls that nobody decided on do not have it."""
        if call.approval_id:
            return call.approval_id
        view = await self._server.get(f"agent-kernel/api/{self._here}")
        return next(str(one["approval_id"]) for one in view["tool_calls"] if one["tool_call_id"] == call.tool_call_id)

    async def _pause(self, run: RunView) -> None:
        pause = run.paused
        assert pause is not None
        limits = run.budget
        if pause.of == "conversation" and run.conversation_budget is not None:
            limits = run.conversation_budget.limits
        add, without, go_on, said = dict[str, float](), pause.unpriced and not pause.repeated, ACTIONS["goOn"], ""
        if without:
            go_on, said = ACTIONS["goOnWithout"], f"{CARD['noLimit'].format(amount=money(limits.usd or 0))} "
        if await self._choose(f"{said}{CARD['orStop']}", {"c": go_on, "s": ACTIONS["stop"]}) == "s":
            await self._send(f"{self._here}/runs/{run.run_id}/cancel", {}, run)
            return
        for name in () if without else pause.reached:
            unit = {"usd": 0.01, "seconds": 60}.get(name, 1)
            half = max(1, round((getattr(limits, name) or 0) / 2 / unit)) * unit  # half of what there was is offered
            offered = f"{half:.2f}" if name == "usd" else f"{half // 60 if name == 'seconds' else half:.0f}"
            typed = await self._line(f"{words.LIMITS[name]['add']} (Enter: {offered}):")
            plain = (typed or offered).lstrip("$").replace(",", "").replace("_", "")
            try:
                value = float(plain) if name == "usd" else int(plain)
            except ValueError:
                value = 0
            if not 0 < value <= 1e9:
                self._transcript.line("Write a number above 0.")
                return
            add[name] = value * 60 if name == "seconds" else value
        body = {"pause_id": pause.pause_id, "add": add, "without_usd": without}
        await self._send(f"{self._here}/runs/{run.run_id}/budget", body, run)


def editable(call: ToolCallView) -> tuple[str, str, Callable[[str], Any]]:
    """The text that is edited, its file's ending, and how the arguments are made of it."""
    arguments = arguments_of(call) or {}
    name, suffix = {"run_python": ("code", ".py"), "run_shell": ("command", ".sh")}.get(call.tool_name, ("", ""))
    if not isinstance(arguments.get(name), str):
        return pretty(call.tool_input) + "\n", ".json", str.strip
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
