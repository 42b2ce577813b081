"""A conversation as its server has it: what is open in it; and its last run, printed to its end for a script."""

import json
from contextlib import aclosing
from typing import TextIO

from pydantic import ValidationError

from agent_kernel.protocol.events import ServerEvent, server_event_adapter
from agent_kernel.protocol.views import ConversationView, RunView, ToolCallView
from agent_kernel.terminal.connection import API, OTHER_VERSION, ChatError, Frame, Lost, Server, follow, path_of
from agent_kernel.terminal.lines import Terminal
from agent_kernel.terminal.transcript import Transcript
from agent_kernel.tools.builtin.declarations import ASK_USER

PATIENCE_SECONDS = 120.0
"""How long a script waits for a server that can't be reached."""
Ask = ToolCallView | RunView
"""What waits for a person: a call for a decision, for the answer to its question, or for a word on its unknown outcome;
or a run that is paused."""


async def print_run(server: Server, conversation_id: str, terminal: Terminal, as_json: TextIO | None) -> int:
    """Print the run that goes on, or the last one, to its end; or each event from now on as a line of JSON."""
    view, end = await read_view(server, conversation_id), None
    transcript = Transcript(terminal, earlier=earlier_runs(view), asks=False)
    after = None if as_json else 0
    async with aclosing(follow(server, conversation_id, after, PATIENCE_SECONDS)) as items:
        async for item in items:
            if isinstance(item, Lost):
                continue
            seq, frame = item
            if as_json is not None:
                as_json.write(f"{json.dumps(frame, separators=(',', ':'))}\n")  # ASCII: no terminal obeys it
                as_json.flush()
            elif (event := read_event(frame)) is not None:
                transcript.show(event)
            if frame["type"] in ("session", "run"):
                view = await read_view(server, conversation_id)
                end = view.last_seq if active_run(view) is None else None
            if end is not None and seq >= end:
                break
    if not view.runs:
        raise ChatError("Nothing has been asked in this conversation yet.")
    return 0 if view.runs[-1].status == "complete" else 1


async def read_view(server: Server, conversation_id: str) -> ConversationView:
    """Raises `ChatError`, `Lost`, `Refused`."""
    try:
        return ConversationView.model_validate(await server.get(f"{API}/{path_of(conversation_id)}"))
    except ValidationError:
        raise ChatError(OTHER_VERSION) from None


def read_event(frame: Frame) -> ServerEvent | None:
    """The event of a frame; `None` for a `session`, and for a type that this version does not know."""
    if frame["type"] == "session":
        return None
    try:
        return server_event_adapter.validate_python(frame)
    except ValidationError:
        return None


def earlier_runs(view: ConversationView) -> set[str]:
    """The runs that have ended, but for the last one where none goes on."""
    ended = [run.run_id for run in view.runs if run.ended_at is not None]
    return set(ended if active_run(view) is not None else ended[:-1])


def active_run(view: ConversationView) -> RunView | None:
    """The run that has the floor; a queued one only if no other runs."""
    going_on = [run for run in view.runs if run.ended_at is None]
    return next((run for run in going_on if run.status == "running"), next(iter(going_on), None))


def waiting(view: ConversationView) -> dict[str, Ask]:
    """What waits for a person, in order, by a key that is the same for what is the same to decide on."""
    run = active_run(view)
    if run is None:
        return {}
    found: dict[str, Ask] = {
        f"{call.tool_call_id} {call.state} {call.digest}": call
        for call in view.tool_calls
        if call.run_id == run.run_id
        and (
            call.state == "awaiting_approval"
            or (call.state == "executing" and call.tool_name == ASK_USER)
            or (call.state == "unknown" and call.unknown_answer is None)
        )
    }
    return found if run.paused is None else found | {run.paused.pause_id: run}
