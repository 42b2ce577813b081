"""`agent-kernel chat`: follows a conversation, asks the person what waits, and sends the answers.

What is printed and asked is in the server's view of the conversation, which is read again when an event has changed it.
"""

import argparse
import asyncio
import io
import json
import shutil
import sys
from collections.abc import Mapping
from contextlib import aclosing, suppress
from dataclasses import replace
from math import inf
from typing import Any, NoReturn, TextIO
from urllib.parse import quote

from agent_kernel.command_line import INTERRUPTED
from agent_kernel.protocol.lists import ListedRun
from agent_kernel.protocol.views import ConversationView, RunView, ToolCallView
from agent_kernel.record.words import ACTIONS, CARD, name_of, run_word
from agent_kernel.terminal import connection
from agent_kernel.terminal.connection import Lost, Place, Refused, Server
from agent_kernel.terminal.lines import (
    Ask,
    Printer,
    Terminal,
    active_run,
    forget_typed,
    one_line,
    question_of,
    typed_line,
    waiting_in,
)

ENDLESS = 1_000_000
"""The columns of an output that is no terminal: its lines are not wrapped."""
LISTED = 20
"""The most conversations in a list."""
SCRIPT_TRIES = 60
"""How often a script tries to reach a server that is lost: for some two minutes."""
NO_SERVER = (
    "No Jupyter server runs here. Start one (jupyter lab), or name one: --server URL, with its token in JUPYTER_TOKEN."
)
STOP, NOW = "/stop", "/now"
PIECES = ("token", "reasoning", "usage", "tool_output", "tool_state")
"""The events that change nothing that is printed or asked, but for a call that waits for the user's own cell."""
Request = tuple[str, Mapping[str, Any]]
"""A route and the body that is sent there."""


def _is_news(frame: Mapping[str, Any]) -> bool:
    return frame["type"] not in PIECES or frame.get("waiting_behind") is not None


class Leave(Exception):
    """The person leaves. That stops nothing."""


class Changed(Exception):
    """What is to be asked has changed while it was asked: it was answered elsewhere, or something else began."""


def run_command(options: argparse.Namespace) -> int:
    """Returns the exit code. Raises `AgentKernelError`."""
    out = sys.stdout
    if isinstance(out, io.TextIOWrapper):
        out.reconfigure(errors="replace")  # a terminal of another encoding shows what it can
    try:
        return asyncio.run(_run(options, out))
    except Leave:
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED


async def _run(options: argparse.Namespace, out: TextIO) -> int:
    terminal = Terminal(out, lambda: shutil.get_terminal_size().columns if out.isatty() else ENDLESS)
    asks = not options.json and out.isatty() and sys.stdin.isatty()
    async with Server(_server(options)) as server:
        conversation_id = options.conversation or await _choose(options, server, terminal if asks else None)
        path = f"conversations/{quote(conversation_id, safe='')}"
        view = await server.get(path, ConversationView)
        if asks:
            await Chat(server, path, view, terminal).run()
        return await _print_to_end(server, path, view, terminal, out if options.json else None)


def _server(options: argparse.Namespace) -> Place:
    """The server of `--server`, or the only one that runs. Raises `Refused`."""
    given = options.server is not None
    places = [connection.place_of(options.server)] if given else connection.running_servers()
    if not places:
        raise Refused(NO_SERVER)
    if len(places) > 1:
        listed = ", ".join(place.url for place in places)
        raise Refused(f"Several servers run here. Say which: --server URL, one of {listed}")
    return replace(places[0], token=options.token or places[0].token)


async def _choose(options: argparse.Namespace, server: Server, terminal: Terminal | None) -> str:
    """The id of the conversation, which a person in a terminal chooses. Raises `Leave`, `Lost`, `Refused`."""
    of_notebook = {} if options.notebook is None else {"notebook": options.notebook}
    runs = await server.get("runs", list[ListedRun], **of_notebook)
    found: dict[str, ListedRun] = {}  # one run of each conversation: an open one, of those one that waits, the newest
    for run in sorted(runs, key=lambda run: (run.ended_at is None, bool(run.waits_for), run.started_at), reverse=True):
        found.setdefault(run.conversation_id, run)
    if not found:
        raise Refused("Nothing has been asked there yet: begin in a notebook.")
    if options.latest or of_notebook:
        return next(iter(found))
    if terminal is None:
        raise Refused("Say which conversation: its id, --notebook PATH, or --latest.")
    listed = ([run for run in found.values() if run.ended_at is None] or list(found.values()))[:LISTED]
    for number, run in enumerate(listed, 1):
        state = run_word(run.status) if run.ended_at else "waits" if run.waits_for else "goes on"
        terminal.line(one_line(f"{number}  {run.notebook or 'no notebook'}  {state}  {run.prompt}", 160))
    while True:
        terminal.ask(f"Which conversation? 1 to {len(listed)}; Ctrl+D leaves.")
        if not (typed := await typed_line()):
            raise Leave
        if typed.strip().isdecimal() and 1 <= int(typed) <= len(listed):
            return listed[int(typed) - 1].conversation_id


async def _print_to_end(
    server: Server, path: str, view: ConversationView, terminal: Terminal, as_json: TextIO | None
) -> int:
    """Print the run that goes on, or the last one, to its end; or each event from now on as a line of JSON. Returns the
    exit code."""
    printer = Printer(terminal, view)
    async with aclosing(server.follow(path, view.last_seq, SCRIPT_TRIES)) as frames:
        async for seq, frame in frames:
            if as_json is not None:
                as_json.write(f"{json.dumps(frame)}\n")  # ASCII: no terminal obeys it
                as_json.flush()
            if _is_news(frame):
                view = await server.get(path, ConversationView)
                if as_json is None:
                    printer.show(view)
            if active_run(view) is None and seq >= view.last_seq:
                break
    if not view.runs:
        raise Refused("Nothing has been asked in this conversation yet.")
    return 0 if view.runs[-1].status == "complete" else 1


class Chat:
    """A conversation whose person is asked what waits."""

    def __init__(self, server: Server, path: str, view: ConversationView, terminal: Terminal) -> None:
        self._server, self._path, self._view, self._terminal = server, path, view, terminal
        self._printer = Printer(terminal, view)
        self._news = asyncio.Event()
        """Set when the view has to be read again."""
        self._answered: set[str] = set()
        """The keys of what was answered here, and is not asked again."""

    def _say(self, text: str) -> None:
        self._terminal.line(one_line(text))

    async def run(self) -> NoReturn:
        """Raises `Leave`, `Lost`, `Refused`."""
        self._say(f"Ctrl+C leaves, which stops nothing; {STOP} and Enter stops the run, {NOW} asks its model at once.")
        self._listening = asyncio.create_task(self._listen())
        try:
            while True:
                self._printer.show(self._view, waiting_in(self._view))
                key, ask = self._next()
                try:
                    await self._ask(key, ask)
                except Changed:
                    if ask is not None and key not in waiting_in(self._view):
                        self._say("This was answered elsewhere, and is not asked any more.")
                await self._refresh()
        except (Leave, asyncio.CancelledError):
            goes_on = "The run goes on. " if active_run(self._view) is not None else ""
            self._terminal.line(f"\n{goes_on}Come back: agent-kernel chat {self._view.conversation_id}")
            raise
        finally:
            self._listening.cancel()
            await asyncio.wait((self._listening,))

    async def _listen(self) -> None:
        """Raises `Refused`."""
        try:
            async with aclosing(self._server.follow(self._path, self._view.last_seq, inf)) as frames:
                async for _, frame in frames:
                    if _is_news(frame):
                        self._news.set()
        finally:
            self._news.set()

    async def _refresh(self) -> None:
        """Read the view as soon as the server can be reached. Raises `Refused`."""
        said = False
        while True:
            if self._listening.done():
                self._listening.result()
            self._news.clear()
            try:
                self._view = await self._server.get(self._path, ConversationView)
                return
            except Lost:
                if not said:
                    self._say("Reconnecting …")
                said = True
                await asyncio.sleep(1.0)

    def _next(self) -> tuple[str, Ask | None]:
        """What is asked next, with its key; without anything that waits, whether a run goes on."""
        asks = (one for one in waiting_in(self._view).items() if one[0] not in self._answered)
        return next(asks, ("a run" if active_run(self._view) is not None else "a prompt", None))

    async def _line(self, question: str = "") -> str:
        """What the person types. Raises `Changed` when something else is to be asked, without a question when there
        is news, and after `/stop`; `Leave`."""
        if question:
            forget_typed()
            self._terminal.ask(question)
        typed, changed = asyncio.create_task(typed_line()), asyncio.create_task(self._until_changed(question))
        try:
            await asyncio.wait((typed, changed), return_when=asyncio.FIRST_COMPLETED)
        finally:
            typed.cancel()
            changed.cancel()
            self._news.set()  # it may have been taken and not acted on
        if changed.done():  # a line that comes at that moment decides nothing
            if question:
                self._terminal.line("", "")
            changed.result()
            raise Changed
        if not (line := typed.result()):
            raise Leave
        run = active_run(self._view)
        if run is not None and (action := {STOP: "cancel", NOW: "try-now"}.get(line.strip())) is not None:
            await self._send(f"{self._path}/runs/{run.run_id}/{action}", {})
            raise Changed
        return line.strip()

    async def _until_changed(self, question: str) -> None:
        key, _ = self._next()
        with suppress(Lost):
            while key == self._next()[0]:
                await self._news.wait()
                if not question or self._listening.done():
                    return
                self._news.clear()
                self._view = await self._server.get(self._path, ConversationView)

    async def _pick(self, question: str, choices: Mapping[str, str]) -> str:
        named = "  ".join(f"[{key}] {name}" for key, name in choices.items())
        while (typed := await self._line(f"{question}\n{named}")) not in choices:
            self._say(f"Type one of {', '.join(choices)}, and Enter.")
        return typed

    async def _ask(self, key: str, ask: Ask | None) -> None:
        """Ask for an answer to what waits, right below it, and send it. Raises `Changed`, `Leave`."""
        if isinstance(ask, ToolCallView):
            self._printer.show_call(ask)
            request = await self._of_call(ask)
        elif ask is not None:
            request = await self._of_pause(ask)
        elif active_run(self._view) is not None:
            await self._line()
            self._say(f"A prompt can be typed when the run has ended; {STOP} stops it.")
            return
        else:
            request = await self._of_prompt()
        if await self._send(*request):
            self._answered.add(key)

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
        question = f"{one_line(name_of(call.tool_name), 60)}: {CARD['exactly']}"
        digest = {"digest": call.digest}  # that of what is on screen: nothing else is decided on
        choices = {"a": ACTIONS["approve"], "d": ACTIONS["deny"]}
        if offer := next((rule for rule in call.rules if "run" in rule.scopes), None):
            covered = f" in this run. {offer.label}" + (f" ({offer.note})" if offer.note else "")
            choices["r"] = one_line(ACTIONS["allowInRun"] + covered, 240)
        typed = await self._pick(question, choices)
        if typed == "r" and offer is not None:
            return path, {"approved": True, "scope": "run", "rule": offer.text} | digest
        if typed == "a":
            return path, {"approved": True} | digest
        reason = await self._line(f"{CARD['reason']} ({CARD['reasonNote']}):")
        return path, {"approved": False, "reason": reason or None} | digest

    async def _of_pause(self, run: RunView) -> Request:
        """A run goes on with as much again as it had; other amounts are for its card."""
        pause, path = run.paused, f"{self._path}/runs/{run.run_id}"
        assert pause is not None
        whole = run.conversation_budget if pause.of == "conversation" else None
        limits = (run.budget if whole is None else whole.limits).given()
        without = pause.unpriced and not pause.repeated
        add = {name: limits[name] for name in pause.reached if name in limits and not without}
        more = f" with {', '.join(f'{value:,} {name}' for name, value in add.items())} more" if add else ""
        await self._pick(CARD["orStop"], {"c": ACTIONS["goOnWithout" if without else "goOn"] + more})
        return f"{path}/budget", {"pause_id": pause.pause_id, "add": add, "without_usd": without}

    async def _of_prompt(self) -> Request:
        while not (text := await self._line("Ask for something; Ctrl+D leaves.")):
            pass
        self._printer.typed = text
        if self._view.runs:
            return f"{self._path}/messages", {"content": text}
        return f"{self._path}/runs", {"content": text, "watched": True}

    async def _send(self, path: str, body: Mapping[str, Any]) -> bool:
        """Whether the server has taken it; the view says what came of it."""
        try:
            await self._server.post(path, body)
        except (Refused, Lost) as error:
            unknown = " Nothing is known of what you sent." if isinstance(error, Lost) else ""
            self._say(f"{error}{unknown}")
            return False
        return True
