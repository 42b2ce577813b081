"""Which server and which conversation `agent-kernel chat` follows."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from agent_kernel.protocol.lists import ListedRun
from agent_kernel.protocol.vocabulary import RunStatus
from agent_kernel.record import words
from agent_kernel.terminal.connection import ChatError, Place, Refused, Server, place_of, running_servers
from agent_kernel.terminal.keyboard import INTERRUPT, Keyboard
from agent_kernel.terminal.text import BOLD, DIM, Terminal, one_line

LISTED = 20
"""The most conversations in a list."""
GOES_ON: tuple[RunStatus, ...] = ("queued", "running")
NO_SERVER = (
    "No Jupyter server with Agent Kernel runs here. Start one (jupyter lab), or name one: --server URL, with its token "
    "in JUPYTER_TOKEN."
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line names."""

    conversation: str | None = None
    notebook: str | None = None
    latest: bool = False
    server: str | None = None
    token: str | None = None


async def choose_server(wanted: Wanted, stack: AsyncExitStack, keys: Keyboard | None, terminal: Terminal) -> Server:
    """The server of `--server`, or the only one that runs; of several, the one with the notebook, or the person's
    choice. Raises `ChatError`, `Lost`, `Refused`."""
    if wanted.server is not None:
        server = await stack.enter_async_context(Server(place_of(wanted.server, wanted.token)))
        await _check(server)
        return server
    servers = [await stack.enter_async_context(Server(_with(place, wanted.token))) for place in running_servers()]
    answers = await asyncio.gather(*(one.has_agents() for one in servers))
    found = [one for one, has in zip(servers, answers, strict=True) if has]
    if wanted.notebook is not None and len(found) > 1:
        found = [one for one in found if _inside(wanted.notebook, one.place)] or found
    if not found:
        raise ChatError(NO_SERVER)
    if len(found) == 1:
        return found[0]
    if keys is None:
        listed = ", ".join(one.place.url for one in found)
        raise ChatError(f"Several servers run here. Say which: --server URL, one of {listed}")
    rows = [f"{one.place.url}  {one.place.root or ''}" for one in found]
    return found[await _pick(rows, "Which server?", keys, terminal)]


def _with(place: Place, token: str | None) -> Place:
    return Place(place.url, token, place.root) if token else place


async def _check(server: Server) -> None:
    try:
        await server.get("agent-kernel/api/status")
    except Refused as refused:
        if refused.status == 404:
            raise ChatError(f"There is no Agent Kernel at {server.place.url}: no such route.") from None
        raise


def _inside(notebook: str, place: Place) -> bool:
    return place.root is not None and Path(notebook).resolve().is_relative_to(place.root.resolve())


def path_on(place: Place, notebook: str) -> str:
    """A notebook's path as its server has it. It is given so, or as a file of this machine."""
    if _inside(notebook, place) and place.root is not None and Path(notebook).exists():
        return Path(notebook).resolve().relative_to(place.root.resolve()).as_posix()
    return notebook.replace(os.sep, "/").strip("/")


class Leave(Exception):
    """The person chose nothing."""


async def choose_conversation(wanted: Wanted, server: Server, keys: Keyboard | None, terminal: Terminal) -> str:
    """The id of the conversation. Raises `ChatError`, `Leave`, `Lost`, `Refused`."""
    if wanted.conversation is not None:
        return wanted.conversation
    path = path_on(server.place, wanted.notebook) if wanted.notebook is not None else None
    runs = await server.runs(**({"notebook": path} if path is not None else {}))
    newest = conversations_of(runs)
    if path is not None:
        return newest[0].conversation_id if newest else await _new(server, path, keys)
    if not newest:
        raise ChatError("Nothing has been asked on this server yet. Name an open notebook: --notebook PATH")
    if wanted.latest:
        return newest[0].conversation_id
    if keys is None:
        raise ChatError("Say which conversation: its id, --notebook PATH, or --latest.")
    listed = ([run for run in newest if run.status in GOES_ON] or newest)[:LISTED]
    return listed[await _pick([row_of(run) for run in listed], "Which conversation?", keys, terminal)].conversation_id


def conversations_of(runs: Sequence[ListedRun]) -> list[ListedRun]:
    """One run of each conversation, an open one if there is one; the newest first, those that wait before others."""
    found: dict[str, ListedRun] = {}
    for run in runs:
        known = found.get(run.conversation_id)
        if known is None or known.status not in GOES_ON:
            found[run.conversation_id] = run
    ordered = sorted(found.values(), key=lambda run: run.started_at, reverse=True)
    return sorted(ordered, key=lambda run: (run.status not in GOES_ON, not run.waits_for))


def row_of(run: ListedRun) -> str:
    """A conversation in a list: its notebook, its state, its prompt."""
    word = words.run_word(run.status)
    if run.status in GOES_ON:
        waits = [wait for wait in run.waits_for if wait.kind != "run"]
        word = words.STATES["awaiting_approval"] if waits else words.STATES["executing"]
    tools = ", ".join(dict.fromkeys(run.waiting_tools))
    state = f"{word}: {tools}" if tools else word
    return f"{one_line(run.notebook or 'no notebook', 60)}  {one_line(state, 80)}  {one_line(run.prompt, 60)}"


async def _new(server: Server, path: str, keys: Keyboard | None) -> str:
    kernel_id = await server.kernel_of(path)
    if kernel_id is None:
        raise ChatError(f"No open notebook has the path {one_line(path)} on {server.place.url}.")
    if keys is None:
        raise ChatError(f"Nothing has been asked in {one_line(path)} yet.")
    made = await server.post("agent-kernel/api/conversations", {"kernel_id": kernel_id})
    return str(made["conversation_id"])


async def _pick(rows: Sequence[str], question: str, keys: Keyboard, terminal: Terminal) -> int:
    for number, row in enumerate(rows, 1):
        terminal.lines([(BOLD, f"{number:>2}  "), ("", row)], "", "    ")
    while True:
        text = await keys.line(question, note=f"1 to {len(rows)}; Escape leaves")
        if text is None or text == INTERRUPT:
            raise Leave
        if text.strip().isdecimal() and 1 <= int(text) <= len(rows):
            return int(text) - 1
        terminal.line(f"Write a number from 1 to {len(rows)}.", DIM)
