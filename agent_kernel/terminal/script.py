"""What `agent-kernel chat` prints without a person: a run to its end, or its events as JSON."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TextIO

from pydantic import ValidationError

from agent_kernel.protocol.events import RunEvent, ServerEvent, SessionEvent, server_event_adapter
from agent_kernel.protocol.views import RunView
from agent_kernel.terminal.connection import ChatError, Frame, Server, follow
from agent_kernel.terminal.conversation import Conversation
from agent_kernel.terminal.lines import Terminal
from agent_kernel.terminal.transcript import Transcript

PATIENCE_SECONDS = 120.0
"""How long a script waits for a server that can't be reached."""
FAILED = 1
"""The exit code; 0 where the run is complete."""
OTHER_VERSION = "The server has another version of Agent Kernel, whose conversations can't be read."


def read_event(frame: Frame) -> ServerEvent | None:
    """The event of a frame; `None` for a type that this version does not know."""
    try:
        return server_event_adapter.validate_python(frame)
    except ValidationError:
        return None


async def print_run(server: Server, conversation_id: str, terminal: Terminal) -> int:
    """Print the run that goes on, or the last one, to its end."""
    conversation, transcript = None, None
    async with aclosing(_frames(server, conversation_id, after=0)) as frames:
        async for frame in frames:
            if (event := read_event(frame)) is None:
                continue
            if conversation is None or transcript is None:
                conversation = begun(event)
                transcript = Transcript(terminal, conversation, asks=False)
            conversation.apply(event)
            transcript.show(event)
            if conversation.is_caught_up and conversation.active is None and event.type in ("session", "run"):
                return _status(conversation.last)
    return FAILED


async def print_json(server: Server, conversation_id: str, out: TextIO) -> int:
    """Print each event as a line of JSON, to the end of the run that goes on."""
    runs: dict[str, RunView] = {}
    async with aclosing(_frames(server, conversation_id, after=None)) as frames:
        async for frame in frames:
            out.write(f"{json.dumps(frame, separators=(',', ':'))}\n")  # ASCII: no terminal obeys it
            out.flush()
            event = read_event(frame)
            if isinstance(event, SessionEvent):
                runs = {run.run_id: run for run in event.snapshot.runs}
            elif isinstance(event, RunEvent):
                runs[event.run.run_id] = event.run
            else:
                continue
            if all(run.ended_at is not None for run in runs.values()):
                return _status(next(reversed(runs.values()), None))
    return FAILED


async def _frames(server: Server, conversation_id: str, after: int | None) -> AsyncGenerator[Frame]:
    async with aclosing(follow(server, conversation_id, after, PATIENCE_SECONDS)) as items:
        async for item in items:
            if isinstance(item, dict):
                yield item


def begun(event: object) -> Conversation:
    if not isinstance(event, SessionEvent):
        raise ChatError(OTHER_VERSION)
    return Conversation(event)


def _status(run: RunView | None) -> int:
    if run is None:
        raise ChatError("Nothing has been asked in this conversation yet.")
    return 0 if run.status == "complete" else FAILED
