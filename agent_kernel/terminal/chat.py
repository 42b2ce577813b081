"""`agent-kernel chat`: follows a conversation, asks the person what waits, and sends the answers.

What is printed and asked is in the server's view of the conversation, which is read again when an event has changed it.
"""

import argparse
import asyncio
import io
import json
import shutil
import sys
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import aclosing
from dataclasses import replace
from math import inf
from typing import Any, NoReturn, TextIO
from urllib.parse import quote

from agent_kernel.command_line import INTERRUPTED
from agent_kernel.protocol.lists import ListedRun
from agent_kernel.protocol.views import ConversationView, RunView, ToolCallView
from agent_kernel.record.words import ACTIONS, CARD, name_of, run_word
from agent_kernel.terminal import connection
from agent_kernel.terminal.connection import Frame, Lost, Place, Refused, Server
from agent_kernel.terminal.lines import (
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
Asking = Generator[str, str, Request]
"""Asks a person: gives questions, is sent what is typed, and returns what is sent to the server."""


def _is_news(frame: Mapping[str, Any]) -> bool:
    return frame["type"] not in PIECES or frame.get("waiting_behind") is not None


class Leave(Exception):
    """The person leaves. That stops nothing."""


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
        self._answered: set[str] = set()
        """The keys of what was answered here, and is not asked again."""
        self._asked = ""
        """The key of what is asked now."""
        self._asking: Asking | None = None

    def _say(self, text: str) -> None:
        self._terminal.line(one_line(text))

    async def run(self) -> NoReturn:
        """Raises `Leave`, `Refused`."""
        self._say(f"Ctrl+C leaves, which stops nothing; {STOP} and Enter stops the run, {NOW} asks its model at once.")
        async with aclosing(self._server.follow(self._path, self._view.last_seq, inf)) as frames:
            changed, typed = asyncio.create_task(self._until_changed(frames)), asyncio.create_task(typed_line())
            try:
                while True:
                    asked = self._asked
                    self._show()
                    if typed.done() and self._asked != asked:  # a line that comes at that moment decides nothing
                        typed = self._next_line(typed)
                    await asyncio.wait((changed, typed), return_when=asyncio.FIRST_COMPLETED)
                    if changed.done():
                        changed.result()
                        changed = asyncio.create_task(self._until_changed(frames))
                        await self._read()
                    else:
                        line, typed = typed.result(), self._next_line(typed)
                        await self._take(line.strip())
            except (Leave, asyncio.CancelledError):
                goes_on = "The run goes on. " if active_run(self._view) is not None else ""
                self._terminal.line(f"\n{goes_on}Come back: agent-kernel chat {self._view.conversation_id}")
                raise
            finally:
                changed.cancel()
                typed.cancel()
                await asyncio.gather(changed, typed, return_exceptions=True)

    def _next_line(self, typed: asyncio.Task[str]) -> asyncio.Task[str]:
        """Raises `Leave` where the input has ended."""
        if not typed.result():
            raise Leave
        return asyncio.create_task(typed_line())

    async def _until_changed(self, frames: AsyncGenerator[tuple[int, Frame]]) -> None:
        """Return once the view is older than the conversation. Raises `Refused`."""
        async for seq, frame in frames:
            if frame["type"] == "session" or (_is_news(frame) and seq > self._view.last_seq):
                return

    async def _read(self) -> None:
        """Read the view as soon as the server can be reached. Raises `Refused`."""
        said = False
        while True:
            try:
                self._view = await self._server.get(self._path, ConversationView)
                return
            except Lost:
                if not said:
                    self._say("Reconnecting …")
                said = True
                await asyncio.sleep(1.0)

    def _show(self) -> None:
        """Print what is new and ask what waits, right below it. Nothing is printed below a question that is still to be
        answered."""
        waiting = waiting_in(self._view)
        idle = "a run" if active_run(self._view) is not None else "a prompt"
        key, ask = next((one for one in waiting.items() if one[0] not in self._answered), (idle, None))
        if self._asking is not None:
            if key == self._asked:
                return
            self._terminal.line("", "")
            if self._asked != "a prompt" and self._asked not in waiting:
                self._say("This was answered elsewhere, and is not asked any more.")
        self._printer.show(self._view, waiting)
        self._asked, self._asking = key, None
        if isinstance(ask, ToolCallView):
            self._printer.show_call(ask)
            self._asking = self._of_call(ask)
        elif ask is not None:
            self._asking = self._of_pause(ask)
        elif key == "a prompt":
            self._asking = self._of_prompt()
        if self._asking is not None:
            self._put(next(self._asking))

    def _put(self, question: str) -> None:
        forget_typed()
        self._terminal.ask(question)

    async def _take(self, line: str) -> None:
        """What the person has typed. Raises `Refused`."""
        run = active_run(self._view)
        if run is not None and (action := {STOP: "cancel", NOW: "try-now"}.get(line)) is not None:
            await self._send(f"{self._path}/runs/{run.run_id}/{action}", {})
        elif line in (STOP, NOW):
            self._say("No run goes on.")
        elif self._asking is None:
            self._say(f"A prompt can be typed when the run has ended; {STOP} stops it.")
        else:
            try:
                self._put(self._asking.send(line))
                return
            except StopIteration as answered:
                request: Request = answered.value
            if await self._send(*request):
                self._answered.add(self._asked)
        self._asked, self._asking = "", None
        await self._read()

    def _pick(self, question: str, choices: Mapping[str, str]) -> Generator[str, str, str]:
        named = "  ".join(f"[{key}] {name}" for key, name in choices.items())
        while (typed := (yield f"{question}\n{named}")) not in choices:
            self._say(f"Type one of {', '.join(choices)}, and Enter.")
        return typed

    def _of_call(self, call: ToolCallView) -> Asking:
        path = f"approvals/{call.approval_id}"
        if call.state == "unknown":
            choices = {"r": ACTIONS["runAgain"], "c": ACTIONS["goOn"]}
            typed = yield from self._pick(f"{CARD['look']} {CARD['outcomeNote']}", choices)
            return f"{path}/outcome", {"answer": "retry" if typed == "r" else "continue"}
        if call.state == "executing":
            answers = {str(number): text for number, text in enumerate(question_of(call)[1], 1)}
            note = "a number chooses, " if answers else ""
            typed = yield f"{CARD['yourAnswer']} ({note}an empty line skips the question):"
            return (f"{path}/result", {"output": answers.get(typed, typed)}) if typed else (f"{path}/cancel", {})
        question = f"{one_line(name_of(call.tool_name), 60)}: {CARD['exactly']}"
        digest = {"digest": call.digest}  # that of what is on screen: nothing else is decided on
        choices = {"a": ACTIONS["approve"], "d": ACTIONS["deny"]}
        if offer := next((rule for rule in call.rules if "run" in rule.scopes), None):
            covered = f" in this run. {offer.label}" + (f" ({offer.note})" if offer.note else "")
            choices["r"] = one_line(ACTIONS["allowInRun"] + covered, 240)
        typed = yield from self._pick(question, choices)
        if typed == "r" and offer is not None:
            return path, {"approved": True, "scope": "run", "rule": offer.text} | digest
        if typed == "a":
            return path, {"approved": True} | digest
        reason = yield f"{CARD['reason']} ({CARD['reasonNote']}):"
        return path, {"approved": False, "reason": reason or None} | digest

    def _of_pause(self, run: RunView) -> Asking:
        """A run goes on with as much again as it had; other amounts are for its card."""
        pause, path = run.paused, f"{self._path}/runs/{run.run_id}"
        assert pause is not None
        whole = run.conversation_budget if pause.of == "conversation" else None
        limits = (run.budget if whole is None else whole.limits).given()
        without = pause.unpriced and not pause.repeated
        add = {name: limits[name] for name in pause.reached if name in limits and not without}
        more = f" with {', '.join(f'{value:,} {name}' for name, value in add.items())} more" if add else ""
        yield from self._pick(CARD["orStop"], {"c": ACTIONS["goOnWithout" if without else "goOn"] + more})
        return f"{path}/budget", {"pause_id": pause.pause_id, "add": add, "without_usd": without}

    def _of_prompt(self) -> Asking:
        while not (text := (yield "Ask for something; Ctrl+D leaves.")):
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
