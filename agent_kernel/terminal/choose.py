"""Which server and which conversation `agent-kernel chat` follows."""

import argparse
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from agent_kernel.protocol.lists import ListedRun
from agent_kernel.record import words
from agent_kernel.terminal.connection import (
    API,
    OTHER_VERSION,
    ChatError,
    Place,
    Refused,
    Server,
    place_of,
    running_servers,
)
from agent_kernel.terminal.lines import one_line

LISTED = 20
"""The most conversations in a list."""
NO_SERVER = (
    "No Jupyter server runs here. Start one (jupyter lab), or name one: --server URL, with its token in JUPYTER_TOKEN."
)
Pick = Callable[[str, Sequence[str]], Awaitable[int]]
"""Asks the person for one of several rows."""
_RUNS: TypeAdapter[list[ListedRun]] = TypeAdapter(list[ListedRun])


async def choose_server(options: argparse.Namespace, stack: AsyncExitStack) -> Server:
    """The server of `--server`, or the only one that runs. Raises `ChatError`, `Lost`, `Refused`."""
    places = running_servers() if options.server is None else [place_of(options.server)]
    if not places:
        raise ChatError(NO_SERVER)
    if len(places) > 1:
        listed = ", ".join(f"{place.url} ({place.root})" for place in places)
        raise ChatError(f"Several servers run here. Say which: --server URL, one of {listed}")
    place = replace(places[0], token=options.token or places[0].token)
    server = await stack.enter_async_context(Server(place))
    try:
        await server.get(f"{API}/status")
    except Refused as refused:
        if refused.status == 404:
            raise ChatError(f"There is no Agent Kernel at {place.url}: no such route.") from None
        raise
    return server


def path_on(place: Place, notebook: str) -> str:
    """A notebook's path as its server has it. It is given so, or as a file of this machine."""
    file, root = Path(notebook).resolve(), place.root and place.root.resolve()
    if root and file.exists() and file.is_relative_to(root):
        return file.relative_to(root).as_posix()
    return notebook.replace(os.sep, "/").strip("/")


async def choose_conversation(options: argparse.Namespace, server: Server, pick: Pick | None) -> str:
    """The id of the conversation. Raises `ChatError`, `Lost`, `Refused`."""
    if options.conversation is not None:
        return str(options.conversation)
    path = path_on(server.place, options.notebook) if options.notebook is not None else None
    try:
        runs = _RUNS.validate_python(await server.get(f"{API}/runs", **({} if path is None else {"notebook": path})))
    except ValidationError as error:
        raise ChatError(OTHER_VERSION) from error
    found: dict[str, ListedRun] = {}  # one run of each conversation: an open one, of those one that waits, the newest
    for run in sorted(runs, key=lambda run: (run.ended_at is None, bool(run.waits_for), run.started_at), reverse=True):
        found.setdefault(run.conversation_id, run)
    listed = list(found.values())
    if not listed:
        if path is None:
            raise ChatError("Nothing has been asked on this server yet. Name an open notebook: --notebook PATH")
        return await _new(server, path, asks=pick is not None)
    if options.latest or path is not None:
        return listed[0].conversation_id
    if pick is None:
        raise ChatError("Say which conversation: its id, --notebook PATH, or --latest.")
    listed = ([run for run in listed if run.ended_at is None] or listed)[:LISTED]
    return listed[await pick("Which conversation?", list(map(_row_of, listed)))].conversation_id


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
    """A new conversation for an open notebook."""
    sessions = await server.get("api/sessions")
    kernel_id = next((one["kernel"]["id"] for one in sessions if one.get("path") == path), None)
    if kernel_id is None:
        raise ChatError(f"No open notebook has the path {one_line(path)} on {server.place.url}.")
    if not asks:
        raise ChatError(f"Nothing has been asked in {one_line(path)} yet.")
    made = await server.post(f"{API}/conversations", {"kernel_id": kernel_id})
    return str(made["conversation_id"])
