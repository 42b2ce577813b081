"""Which server and which conversation `agent-kernel chat` follows."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from agent_kernel.protocol.lists import ListedRun
from agent_kernel.record import words
from agent_kernel.terminal.connection import ChatError, Lost, Place, Refused, Server, place_of, running_servers
from agent_kernel.terminal.lines import one_line

LOOK_SECONDS = 5.0
LISTED = 20
"""The most conversations in a list."""
NO_SERVER = (
    "No Jupyter server with Agent Kernel runs here. Start one (jupyter lab), or name one: --server URL, with its token "
    "in JUPYTER_TOKEN."
)
Pick = Callable[[str, Sequence[str]], Awaitable[int]]
"""Asks the person for one of several rows."""
_RUNS: TypeAdapter[list[ListedRun]] = TypeAdapter(list[ListedRun])


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line names."""

    conversation: str | None = None
    notebook: str | None = None
    latest: bool = False
    server: str | None = None
    token: str | None = None


async def choose_server(wanted: Wanted, stack: AsyncExitStack, pick: Pick | None) -> Server:
    """The server of `--server`, or the only one that runs; of several, the one with the notebook, or the person's
    choice. Raises `ChatError`, `Lost`, `Refused`."""
    if wanted.server is not None:
        server = await stack.enter_async_context(Server(place_of(wanted.server, wanted.token)))
        try:
            await server.get("agent-kernel/api/status")
        except Refused as refused:
            if refused.status == 404:
                raise ChatError(f"There is no Agent Kernel at {server.place.url}: no such route.") from None
            raise
        return server
    places = [Place(one.url, wanted.token or one.token, one.root) for one in running_servers()]
    servers = [await stack.enter_async_context(Server(place)) for place in places]
    answers = await asyncio.gather(*map(_has_agents, servers))
    found = [one for one, has in zip(servers, answers, strict=True) if has]
    if wanted.notebook is not None and len(found) > 1:
        found = [one for one in found if _inside(wanted.notebook, one.place)] or found
    if not found:
        raise ChatError(NO_SERVER)
    if len(found) == 1:
        return found[0]
    if pick is None:
        listed = ", ".join(one.place.url for one in found)
        raise ChatError(f"Several servers run here. Say which: --server URL, one of {listed}")
    return found[await pick("Which server?", [f"{one.place.url}  {one.place.root or ''}" for one in found])]


async def _has_agents(server: Server) -> bool:
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            await server.get("agent-kernel/api/status")
    except (Refused, Lost, TimeoutError):
        return False
    return True


def _inside(notebook: str, place: Place) -> bool:
    return place.root is not None and Path(notebook).resolve().is_relative_to(place.root.resolve())


def path_on(place: Place, notebook: str) -> str:
    """A notebook's path as its server has it. It is given so, or as a file of this machine."""
    if _inside(notebook, place) and place.root is not None and Path(notebook).exists():
        return Path(notebook).resolve().relative_to(place.root.resolve()).as_posix()
    return notebook.replace(os.sep, "/").strip("/")


async def choose_conversation(wanted: Wanted, server: Server, pick: Pick | None) -> str:
    """The id of the conversation. Raises `ChatError`, `Lost`, `Refused`."""
    if wanted.conversation is not None:
        return wanted.conversation
    path = path_on(server.place, wanted.notebook) if wanted.notebook is not None else None
    query = {"notebook": path} if path is not None else {}
    try:
        runs = _RUNS.validate_python(await server.get("agent-kernel/api/runs", **query))
    except ValidationError as error:
        raise ChatError("The server has another version of Agent Kernel, whose runs can't be read.") from error
    newest = _conversations_of(runs)
    if not newest and path is not None:
        return await _new(server, path, asks=pick is not None)
    if not newest:
        raise ChatError("Nothing has been asked on this server yet. Name an open notebook: --notebook PATH")
    if wanted.latest or path is not None:
        return newest[0].conversation_id
    if pick is None:
        raise ChatError("Say which conversation: its id, --notebook PATH, or --latest.")
    listed = ([run for run in newest if run.ended_at is None] or newest)[:LISTED]
    return listed[await pick("Which conversation?", list(map(_row_of, listed)))].conversation_id


def _conversations_of(runs: Sequence[ListedRun]) -> list[ListedRun]:
    """One run of each conversation, an open one if there is one; the newest first, those that wait before others."""
    found: dict[str, ListedRun] = {}
    for run in runs:
        known = found.get(run.conversation_id)
        if known is None or known.ended_at is not None:
            found[run.conversation_id] = run
    ordered = sorted(found.values(), key=lambda run: run.started_at, reverse=True)
    return sorted(ordered, key=lambda run: (run.ended_at is not None, not run.waits_for))


def _row_of(run: ListedRun) -> str:
    """A conversation in a list: its notebook, its state, its prompt."""
    word = words.run_word(run.status)
    if run.ended_at is None:
        waits = any(wait.kind != "run" for wait in run.waits_for)
        word = words.STATES["awaiting_approval" if waits else "executing"]
    tools = ", ".join(dict.fromkeys(run.waiting_tools))
    state = f"{word}: {tools}" if tools else word
    return f"{one_line(run.notebook or 'no notebook', 60)}  {one_line(state, 80)}  {one_line(run.prompt, 60)}"


async def _new(server: Server, path: str, *, asks: bool) -> str:
    sessions = await server.get("api/sessions")
    kernel_id = next((one["kernel"]["id"] for one in sessions if one.get("path") == path), None)
    if kernel_id is None:
        raise ChatError(f"No open notebook has the path {one_line(path)} on {server.place.url}.")
    if not asks:
        raise ChatError(f"Nothing has been asked in {one_line(path)} yet.")
    made = await server.post("agent-kernel/api/conversations", {"kernel_id": kernel_id})
    return str(made["conversation_id"])
