"""Calls and runs of all conversations as lists, each with the notebook, kernel, cell and prompt it belongs to; and the
progress of one open run, for the text that a saved notebook shows of it."""

import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from agent_kernel.approvals.offers import with_offers
from agent_kernel.log import runs, tool_calls
from agent_kernel.protocol.lists import PROMPT_CHARACTERS, ListedCall, ListedRun, WaitView
from agent_kernel.protocol.run_results import RunProgress
from agent_kernel.protocol.views import ToolCallView
from agent_kernel.tools.builtin.declarations import ASK_USER

ENDED_RUNS = 100
"""The number of ended runs, the newest, that a list has unless another is asked for."""
_OPEN = ("queued", "running")


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
