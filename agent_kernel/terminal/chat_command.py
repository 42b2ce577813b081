"""`agent-kernel chat`: follows a conversation, asks the person what waits, and sends the answers.

What is printed and asked is in the server's view of the conversation, which is read again when an event has changed it.
"""

import argparse
import asyncio
import io
import shutil
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from operator import attrgetter
from typing import Any, NoReturn
from urllib.parse import quote

from agent_kernel.command_line import INTERRUPTED
from agent_kernel.protocol.lists import ListedRun
from agent_kernel.protocol.views import ConversationView, RunView, ToolCallView
from agent_kernel.record.words import ACTIONS, CARD, name_of, run_word
from agent_kernel.terminal.connection import Lost, Refused, Server, server_at
from agent_kernel.terminal.lines import (
    Ask,
    Printer,
    Terminal,
    active_run,
    forget_typed,
    one_line,
    question_of,
    typed_lines,
    waiting_in,
)

ENDLESS = 1_000_000
"""The columns of an output that is no terminal: its lines are not wrapped."""
LISTED = 20
"""The most conversations in a list."""
A_RUN, A_PROMPT = "a run", "a prompt"
"""In place of the key of what waits: nothing can be typed while a run goes on but `COMMANDS`, and a prompt after it."""
COMMANDS = {"/stop": "cancel", "/now": "try-now"}
Request = tuple[str, Mapping[str, Any]]
"""A route and the body that is sent there."""


class Leave(Exception):
    """The person leaves. That stops nothing."""


def run_command(options: argparse.Namespace) -> int:
    """Returns the exit code. Raises `AgentKernelError`."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal of another encoding shows what it can
    try:
        return asyncio.run(_run(options))
    except Leave:
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED


async def _run(options: argparse.Namespace) -> int:
    out = sys.stdout
    terminal = Terminal(out, lambda: shutil.get_terminal_size().columns if out.isatty() else ENDLESS)
    async with Server(server_at(options.server, options.token)) as server:
        conversation_id = options.conversation or await _find(options, server, terminal)
        path = f"conversations/{quote(conversation_id, safe='')}"
        async with aclosing(server.views(path)) as views:
            view = await anext(views)
            if out.isatty() and sys.stdin.isatty():
                await Chat(server, path, view, terminal).run(views)
            return await _print_to_end(view, views, terminal)


async def _find(options: argparse.Namespace, server: Server, terminal: Terminal) -> str:
    """The id of the conversation that is meant. Raises `Lost`, `Refused`."""
    of_notebook = {} if options.notebook is None else {"notebook": options.notebook}
    runs = await server.get("runs", list[ListedRun], **of_notebook)
    found: dict[str, ListedRun] = {}  # one run of each conversation: an open one, of those one that waits, the newest
    for run in sorted(runs, key=lambda run: (run.ended_at is None, bool(run.waits_for), run.started_at), reverse=True):
        found.setdefault(run.conversation_id, run)
    if not found:
        raise Refused("Nothing has been asked there yet: begin in a notebook.")
    listed = [run for run in found.values() if run.ended_at is None] or list(found.values())
    if options.latest or of_notebook or len(listed) == 1:
        return listed[0].conversation_id
    for run in listed[:LISTED]:
        state = run_word(run.status) if run.ended_at else "waits" if run.waits_for else "goes on"
        terminal.line(one_line(f"{run.conversation_id}  {run.notebook or 'no notebook'}  {state}  {run.prompt}", 160))
    raise Refused("Say which conversation: its id, --notebook PATH, or --latest.")


async def _print_to_end(view: ConversationView, views: AsyncGenerator[ConversationView], terminal: Terminal) -> int:
    """Print the run that goes on, or the last one, to its end. Returns the exit code."""
    printer = Printer(terminal, view)
    printer.show(view)
    while active_run(view) is not None:
        view = await anext(views)
        printer.show(view)
    if not view.runs:
        raise Refused("Nothing has been asked in this conversation yet.")
    return 0 if view.runs[-1].status == "complete" else 1


class Chat:
    """A conversation whose person is asked what waits."""

    def __init__(self, server: Server, path: str, view: ConversationView, terminal: Terminal) -> None:
        self._server, self._path, self._view, self._terminal = server, path, view, terminal
        self._printer, self._typed = Printer(terminal, view), typed_lines()
        self._asked = ""
        """The key of what is asked now."""
        self._answered: set[str] = set()
        """The keys of what was answered here, and is not asked again."""

    def _say(self, text: str) -> None:
        self._terminal.line(one_line(text))

    async def run(self, views: AsyncGenerator[ConversationView]) -> NoReturn:
        """Raises `Leave`, `Lost`, `Refused`."""
        self._say("Ctrl+C leaves, which stops nothing; /stop and Enter stops the run, /now asks its model at once.")
        changed, asking = asyncio.create_task(_next(views)), self._ask_next(None)
        try:
            while True:
                await asyncio.wait((changed, asking), return_when=asyncio.FIRST_COMPLETED)
                if changed.done():
                    newest, changed = changed.result(), asyncio.create_task(_next(views))
                    self._view = max(newest, self._view, key=attrgetter("last_seq"))
                elif await self._send(*asking.result()):
                    self._answered.add(self._asked)
                asking = self._ask_next(asking)
        except (Leave, asyncio.CancelledError):
            goes_on = "The run goes on. " if active_run(self._view) is not None else ""
            self._terminal.line(f"\n{goes_on}Come back: agent-kernel chat {self._view.conversation_id}")
            raise
        finally:
            changed.cancel()
            asking.cancel()
            await asyncio.gather(changed, asking, return_exceptions=True)

    def _ask_next(self, asking: asyncio.Task[Request] | None) -> asyncio.Task[Request]:
        """Print what is new and ask what waits, right below it. Nothing is printed below a question that is still to be
        answered, and a line that comes when another one takes its place decides nothing."""
        waiting = waiting_in(self._view)
        idle = A_PROMPT if active_run(self._view) is None else A_RUN
        asked, self._asked = self._asked, next((key for key in waiting if key not in self._answered), idle)
        if asking is not None and not asking.done():
            if self._asked == asked != A_RUN:
                return asking
            asking.cancel()
            if asked != A_RUN:
                self._terminal.line("", "")
            if asked not in (A_RUN, A_PROMPT, *waiting):
                self._say("This was answered elsewhere, and is not asked any more.")
        self._printer.show(self._view, waiting)
        return asyncio.create_task(self._ask(waiting.get(self._asked)))

    async def _ask(self, waits: Ask | None) -> Request:
        """Raises `Leave`."""
        if isinstance(waits, ToolCallView):
            self._printer.show_call(waits, asked=True)
            return await self._of_call(waits)
        if waits is not None:
            return await self._of_pause(waits)
        while self._asked == A_RUN:
            await self._line()
            self._say("A prompt can be typed when the run has ended; /stop stops it.")
        while not (text := await self._line("Ask for something; Ctrl+D leaves.")):
            pass
        self._printer.typed = text
        return (f"{self._path}/messages" if self._view.runs else f"{self._path}/runs"), {"content": text}

    async def _line(self, question: str = "") -> str:
        """What the person types. Raises `Leave` at the end of the input."""
        if question:
            forget_typed(self._typed)
            self._terminal.ask(question)
        while line := await self._typed.get():
            action, run = COMMANDS.get(line.strip()), active_run(self._view)
            if action is None:
                return line.strip()
            if run is None:
                self._say("No run goes on.")
            else:
                await asyncio.shield(self._send(f"{self._path}/runs/{run.run_id}/{action}", {}))
        raise Leave

    async def _pick(self, question: str, choices: Mapping[str, str]) -> str:
        named = "  ".join(f"[{key}] {name}" for key, name in choices.items())
        while (typed := await self._line(f"{question}\n{named}")) not in choices:
            self._say(f"Type one of {', '.join(choices)}, and Enter.")
        return typed

    async def _of_call(self, call: ToolCallView) -> Request:
        path = f"approvals/{call.approval_id}"
        if call.state == "unknown":
            choices = {"r": ACTIONS["runAgain"], "c": ACTIONS["goOn"]}
            typed = await self._pick(f"{CARD['look']} {CARD['outcomeNote']}", choices)
            return f"{path}/outcome", {"answer": "retry" if typed == "r" else "continue"}
        if call.state == "executing":
            answers = {str(number): text for number, text in enumerate(question_of(call)[1], 1)}
            note = "a number chooses, " if answers else ""
            typed = await self._line(f"{CARD['yourAnswer']} ({note}an empty line skips the question):")
            return (f"{path}/result", {"output": answers.get(typed, typed)}) if typed else (f"{path}/cancel", {})
        digest = {"digest": call.digest}  # that of what is on screen: nothing else is decided on
        choices = {"a": ACTIONS["approve"], "d": ACTIONS["deny"]}
        if offer := next((rule for rule in call.rules if "run" in rule.scopes), None):
            covered = f" in this run. {offer.label}" + (f" ({offer.note})" if offer.note else "")
            choices["r"] = one_line(ACTIONS["allowInRun"] + covered, 240)
        typed = await self._pick(f"{one_line(name_of(call.tool_name), 60)}: {CARD['exactly']}", choices)
        if typed == "r" and offer is not None:
            return path, {"approved": True, "scope": "run", "rule": offer.text} | digest
        if typed == "a":
            return path, {"approved": True} | digest
        reason = await self._line(f"{CARD['reason']} ({CARD['reasonNote']}):")
        return path, {"approved": False, "reason": reason or None} | digest

    async def _of_pause(self, run: RunView) -> Request:
        """A run goes on with as much again as it had; other amounts are for its card."""
        pause = run.paused
        assert pause is not None
        whole = run.conversation_budget if pause.of == "conversation" else None
        limits = (run.budget if whole is None else whole.limits).given()
        without = pause.unpriced and not pause.repeated
        add = {name: limits[name] for name in pause.reached if name in limits and not without}
        more = f" with {', '.join(f'{value:,} {name}' for name, value in add.items())} more" if add else ""
        await self._pick(CARD["orStop"], {"c": ACTIONS["goOnWithout" if without else "goOn"] + more})
        body = {"pause_id": pause.pause_id, "add": add, "without_usd": without}
        return f"{self._path}/runs/{run.run_id}/budget", body

    async def _send(self, path: str, body: Mapping[str, Any]) -> bool:
        """Whether the server has taken it; the view says what came of it."""
        try:
            await self._server.post(path, body)
            self._view = await self._server.get(self._path, ConversationView)
        except (Refused, Lost) as error:
            unknown = " Nothing is known of what you sent." if isinstance(error, Lost) else ""
            self._say(f"{error}{unknown}")
            return False
        return True


async def _next(views: AsyncGenerator[ConversationView]) -> ConversationView:
    return await anext(views)
