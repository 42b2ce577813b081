"""`agent-kernel chat`: follows a conversation, asks the person what waits, and sends the answers.

What is printed and asked is in the server's view of the conversation, which is read again when an event has changed it.
"""

import argparse
import asyncio
import io
import shutil
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from operator import attrgetter
from urllib.parse import quote

from agent_kernel.command_line import INTERRUPTED
from agent_kernel.protocol.lists import ListedRun
from agent_kernel.protocol.views import ConversationView
from agent_kernel.terminal.connection import Lost, Refused, Server, server_at
from agent_kernel.terminal.lines import Printer, Terminal, active_run, forget_typed, next_line, one_line
from agent_kernel.terminal.questions import A_PROMPT, Question, questions_in

ENDLESS = 1_000_000
"""The columns of an output that is no terminal: its lines are not wrapped."""


def run_command(options: argparse.Namespace) -> int:
    """Returns the exit code. Raises `AgentKernelError`."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal of another encoding shows what it can
    try:
        return asyncio.run(_run(options))
    except KeyboardInterrupt:
        return INTERRUPTED


async def _run(options: argparse.Namespace) -> int:
    out = sys.stdout
    terminal = Terminal(out, lambda: shutil.get_terminal_size().columns if out.isatty() else ENDLESS)
    async with Server(server_at(options.server, options.token)) as server:
        conversation_id = options.conversation or await _find(options, server)
        path = f"conversations/{quote(conversation_id, safe='')}"
        async with aclosing(server.views(path)) as views:
            view = await anext(views)
            if out.isatty() and sys.stdin.isatty():
                await Chat(server, path, view, terminal).run(views)
                return 0
            return await _print_to_end(view, views, terminal)


async def _find(options: argparse.Namespace, server: Server) -> str:
    """The id of the conversation that is meant: an open one, of those one that waits, of those the newest. Raises
    `Lost`, `Refused`."""
    of_notebook = {} if options.notebook is None else {"notebook": options.notebook}
    runs = await server.get("runs", list[ListedRun], **of_notebook)
    if not runs:
        raise Refused("Nothing has been asked there yet: begin in a notebook.")
    return max(runs, key=lambda run: (run.ended_at is None, bool(run.waits_for), run.started_at)).conversation_id


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
        self._printer = Printer(terminal, view)
        self._question = Question()
        """What is asked now."""
        self._asked_at = 0.0
        """When it was on screen."""
        self._answered: set[str] = set()
        """The keys of what was answered here, and is not asked again."""

    def _say(self, text: str) -> None:
        self._terminal.line(one_line(text))

    async def run(self, views: AsyncGenerator[ConversationView]) -> None:
        """Follow the conversation until the person leaves. Raises `Lost`, `Refused`."""
        self._say("Ctrl+C leaves, which stops nothing; /stop and Enter stops the run, /now asks its model at once.")
        changed, typed = asyncio.create_task(_next(views)), next_line()
        try:
            while True:
                self._ask()
                await asyncio.wait((changed, typed), return_when=asyncio.FIRST_COMPLETED)
                if changed.done():
                    self._view = max(changed.result(), self._view, key=attrgetter("last_seq"))
                    changed = asyncio.create_task(_next(views))
                    continue
                line, read_at = typed.result()
                if not line:
                    return
                if read_at > self._asked_at:  # else it was typed before the question was there
                    await self._take(line.strip())
                typed = next_line()
        finally:
            goes_on = "The run goes on. " if active_run(self._view) is not None else ""
            self._terminal.line(f"\n{goes_on}Come back: agent-kernel chat {self._view.conversation_id}")
            changed.cancel()
            await asyncio.gather(changed, return_exceptions=True)

    def _ask(self) -> None:
        """Print what is new, and ask what waits right below it. Nothing is printed below a question that is still to be
        answered."""
        questions = questions_in(self._view, self._path)
        before = self._question
        question = next((one for one in questions if one.key not in self._answered), questions[-1])
        if before.text and before.key == question.key:
            return
        if before.text:
            self._terminal.line("", "")
            if before.key != A_PROMPT:
                self._say("This was answered elsewhere, and is not asked any more.")
        self._printer.show(self._view, {one.key for one in questions})
        self._question = question
        if not question.text:
            return
        if question.call is not None:
            self._printer.show_call(question.call, asked=True)
        forget_typed()
        self._terminal.ask(question.text)
        self._asked_at = time.monotonic()

    async def _take(self, line: str) -> None:
        """Send what a line answers. The view says what came of it."""
        question = self._question
        reply = question.reply_to(line)
        if reply is None:
            self._say(question.advice)
            if question.text:
                self._terminal.ask(question.text)
            return
        if question.key == A_PROMPT:
            self._printer.typed = line
        self._question = Question()
        try:
            await self._server.post(reply.path, reply.body)
            self._view = await self._server.get(self._path, ConversationView)
        except (Refused, Lost) as error:
            self._say(f"{error}{' Nothing is known of what you sent.' if isinstance(error, Lost) else ''}")
        else:
            self._answered.add(question.key)


async def _next(views: AsyncGenerator[ConversationView]) -> ConversationView:
    return await anext(views)
