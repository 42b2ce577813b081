"""What clients and HTTP are shown of the log: conversations; lists of calls and runs of all conversations, with the
notebook, kernel, cell and prompt of each; and the progress of one open run, for the text that a saved notebook
shows of it."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from agent_kernel.approvals.offers import with_offers
from agent_kernel.log import event_rows, message_rows, runs, tool_calls
from agent_kernel.log.runs import ConversationRow
from agent_kernel.protocol.events import SessionEvent
from agent_kernel.protocol.lists import PROMPT_CHARACTERS, ListedCall, ListedRun, WaitView
from agent_kernel.protocol.run_results import RunProgress
from agent_kernel.protocol.views import ConversationView, ToolCallView, ToolView
from agent_kernel.protocol.vocabulary import RunStatus
from agent_kernel.tools.builtin.declarations import ASK_USER
from agent_kernel.tools.declaration import ToolDeclaration

_OPEN: frozenset[RunStatus] = frozenset({"queued", "running"})
_EVENTS_READ = 20_000
"""Of a conversation with more events, what the model is writing comes when it is whole."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A conversation at one moment."""

    view: ConversationView
    resume_from: int
    """Of the events up to this one none shows what the rest does not."""


def read_snapshot(sql: sqlite3.Connection, conversation_id: str) -> Snapshot:
    """The whole conversation, calls with their outputs. Raises `UnknownConversation`."""
    row = runs.read_conversation(sql, conversation_id)
    view = _read(sql, row)
    if view.runs and (last := view.runs[-1]).status == "error":
        view.messages.extend(message_rows.cut_off_answers(sql, row.number, last.run_id))
    return Snapshot(view, _resume_from(sql, row.number, view))


def read_list(sql: sqlite3.Connection, *, after: str | None = None, limit: int = -1) -> bytes:
    """A JSON array of conversations, the oldest first: those after one of them, or so many.
    Raises `UnknownConversation`."""
    first = runs.read_conversation(sql, after).number if after is not None else 0
    return b"[%s]" % b",".join(
        _read(sql, row).model_dump_json().encode() for row in runs.list_conversations(sql, first, limit)
    )


def tool_views(declared: Iterable[ToolDeclaration]) -> list[ToolView]:
    return [
        ToolView(name=tool.name, description=tool.description, parameters=tool.parameters, approval=tool.approval)
        for tool in declared
    ]


def session_frame(snapshot: Snapshot, tools: Sequence[ToolView], command_id: str | None = None) -> bytes:
    """The `session` event with a snapshot; `command_id` is that of the `resume` that has led to it."""
    view = snapshot.view
    event = SessionEvent(
        seq=view.last_seq,
        conversation_id=view.conversation_id,
        command_id=command_id,
        tools=list(tools),
        snapshot=view,
        pending=[call for call in view.tool_calls if call.state == "awaiting_approval"],
        last_seq=view.last_seq,
        resume_from=snapshot.resume_from,
    )
    return event.model_dump_json().encode()


def _resume_from(sql: sqlite3.Connection, conversation: int, view: ConversationView) -> int:
    last = view.last_seq
    open_runs = {run.run_id for run in view.runs if run.status in _OPEN}
    if not open_runs or last > _EVENTS_READ:
        return last
    known = {call.tool_call_id for call in view.tool_calls}
    first = event_rows.shown_only_by_events(sql, conversation, open_runs, known)
    return last if first is None else first - 1


def _read(sql: sqlite3.Connection, row: ConversationRow) -> ConversationView:
    outputs = event_rows.outputs_by_call(sql, row.number)
    calls = [
        with_offers(call).model_copy(update={"outputs": outputs.get(call.tool_call_id, [])})
        for call in tool_calls.list_calls(sql, conversation=row.number)
    ]
    its_runs = runs.list_runs(sql, row.number)
    waits = any(call.state == "awaiting_approval" for call in calls)
    # By the rows alone, so that it agrees with the runs beside it.
    goes = any(run.status in _OPEN for run in its_runs)
    return ConversationView(
        conversation_id=row.conversation_id,
        kernel_id=row.kernel_id,
        model=row.model,
        status="awaiting_approval" if waits else "running" if goes else "idle",
        created_at=row.created_at,
        messages=message_rows.message_views(sql, row.number, event_rows.START),
        tool_calls=calls,
        last_seq=event_rows.last_seq(sql, row.number),
        runs=its_runs,
    )


ENDED_RUNS = 100
"""The number of ended runs, the newest, that a list has unless another is asked for."""


def read_calls(sql: sqlite3.Connection, state: str | None) -> list[ListedCall]:
    """Calls in a state, or all, in the order in which they were proposed. `unanswered` are those of open runs whose
    outcome is unknown, and which no person has answered yet."""
    calls = _unanswered(sql) if state == "unanswered" else tool_calls.list_calls(sql, state=state)
    places: dict[str, dict[str, Any]] = {}
    for call in calls:
        if call.run_id not in places:
            run = runs.read_placed(sql, call.run_id)
            places[call.run_id] = _place_of(run) | {"prompt": run.values["prompt"][:PROMPT_CHARACTERS]}
    return [ListedCall.model_construct(**dict(with_offers(call)), **places[call.run_id]) for call in calls]


def _unanswered(sql: sqlite3.Connection) -> list[ToolCallView]:
    """The calls of all open runs whose outcome is unknown, and which no person has answered yet."""
    unknown = [
        call for run in runs.open_runs(sql) for call in tool_calls.list_calls(sql, run_id=run.run_id, state="unknown")
    ]
    return sorted((call for call in unknown if call.unknown_answer is None), key=attrgetter("created_at"))


def read_runs(sql: sqlite3.Connection, ended: int, run_id: str | None = None) -> list[ListedRun]:
    """All that are open, so many of those that have ended, and `run_id`, the oldest first."""
    rows = [
        (row.conversation, ListedRun.model_validate(row.values | _place_of(row)))
        for row in runs.list_placed(sql, ended, run_id)
    ]
    waits = _waits(sql, rows)
    return [run.model_copy(update={"waits_for": waits[run.run_id]}) for _, run in rows]


def _waits(sql: sqlite3.Connection, rows: Sequence[tuple[int, ListedRun]]) -> dict[str, list[WaitView]]:
    """The waits of each open run."""
    waits: dict[str, list[WaitView]] = defaultdict(list)
    behind: dict[int, str] = {}
    going_on: list[str] = []
    for conversation, run in rows:
        if run.status not in _OPEN:
            continue
        if conversation in behind:
            waits[run.run_id].append(WaitView(kind="run", run_id=behind[conversation]))
        else:
            going_on.append(run.run_id)
        behind[conversation] = run.run_id
        if run.paused is not None:
            waits[run.run_id].append(WaitView(kind="repeat" if run.paused.repeated else "budget"))
    for run_id in going_on:
        waits[run_id] += [wait for call in tool_calls.list_open(sql, run_id) if (wait := _wait_of(call)) is not None]
    return waits


def _wait_of(call: ToolCallView) -> WaitView | None:
    of_call: dict[str, Any] = {
        "tool_call_id": call.tool_call_id,
        "approval_id": call.approval_id,
        "tool_name": call.tool_name,
    }
    if call.state == "awaiting_approval":
        return WaitView(kind="approval", **of_call)
    if call.state == "unknown" and call.unknown_answer is None:
        return WaitView(kind="outcome", **of_call)
    if call.state == "executing" and call.tool_name == ASK_USER:
        return WaitView(kind="answer", **of_call)
    return None


def _place_of(run: runs.PlacedRun) -> dict[str, Any]:
    """The fields of `ListedCall` and `ListedRun` that say where a run was asked for."""
    notebook = run.spec.get("notebook_path") or run.notebook_path
    of_run = {"cell_id": run.spec.get("cell_id"), "client": run.values.get("client")}
    return {"notebook": notebook, "kernel_id": run.kernel_id} | of_run


def read_progress(sql: sqlite3.Connection, conversation: int, run_id: str) -> RunProgress:
    """Raises `UnknownRun`."""
    run = runs.read_run(sql, run_id)
    own = tuple(tool_calls.list_open(sql, run_id))
    ahead = runs.run_ahead(sql, conversation, run_id) if run.status == "queued" else None
    waits = ahead is not None and (
        ahead.paused is not None or any(map(_wait_of, tool_calls.list_open(sql, ahead.run_id)))
    )
    counts = tool_calls.count_states(sql, run_id)
    for call in own:
        counts[call.state] -= 1
    ended = {state: count for state, count in counts.items() if count > 0}
    return RunProgress(run, own, ended, ahead, waits, run.paused is not None or any(map(_wait_of, own)))
