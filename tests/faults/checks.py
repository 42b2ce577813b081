"""What must hold after every fault. Pure functions of what was seen: the log, the frames, the requests, the counter."""

import json
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agent_kernel.log.event_rows import frames_after
from tests.faults.planned_model import mark_of

FINAL = frozenset({"invalid", "success", "error", "denied", "cancelled", "superseded", "expired", "unknown"})
ENDED = frozenset({"complete", "cancelled", "error"})
DID_NOT_RUN = FINAL - {"success", "error", "cancelled", "unknown"}


def orphans(messages: Iterable[Mapping[str, Any]]) -> list[str]:
    """Faults of a model request: calls without exactly one tool message each, in order, right after they were asked."""
    faults: list[str] = []
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if not waiting or waiting[0] != message["tool_call_id"]:
                faults.append(f"an answer to {message['tool_call_id']} where {waiting[:1]} was due")
            else:
                waiting.pop(0)
            continue
        faults += [f"no answer to {call_id}" for call_id in waiting]
        waiting = [call["id"] for call in message.get("tool_calls", ())]
    return faults + [f"no answer to {call_id}" for call_id in waiting]


def cards(frames: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The state that each card shows once a client has read these frames."""
    states: dict[str, str] = {}
    for frame in frames:
        match frame["type"]:
            case "tool_state" | "tool_complete":
                states[frame["tool_call_id"]] = frame["state"]
            case "approval_request":
                states[frame["tool_call_id"]] = "awaiting_approval"
            case "approval_response":
                states[frame["tool_call_id"]] = "approved" if frame["approved"] else "denied"
            case "tool_start":
                states[frame["tool_call_id"]] = "executing"
    return states


def gaps(numbers: Iterable[int], after: int) -> list[str]:
    """Where a stream of `seq` that begins after `after` is not exactly the next number each time."""
    faults = []
    for number in numbers:
        if number != after + 1:
            faults.append(f"{number} came after {after}")
        after = number
    return faults


def call_faults(calls: Iterable[Mapping[str, Any]], counter: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """The faults of a round's calls: the figure, and what is the matter. `counter` says how often each mark was left. A
    call that is asked for again leaves the same mark, so marks are counted over all calls that may leave them."""
    same: dict[str, list[Mapping[str, Any]]] = {}
    for call in calls:
        if call["state"] not in FINAL:
            yield "dishonest_states", f"{call['tool_call_id']} is left {call['state']}"
        if call["state"] != "invalid":
            same.setdefault(mark_of(call["tool_input"]), []).append(call)
    for mark, group in same.items():
        yield from _mark_faults(group, counter.get(mark, 0))
    for mark in counter:
        if mark not in same:
            yield "ran_undecided", f"{mark} was left by no call of the log"


def _mark_faults(group: list[Mapping[str, Any]], times: int) -> Iterator[tuple[str, str]]:
    """Of calls with the same arguments, in the order in which they were asked for, which ran so many times."""
    names = ", ".join(f"{call['tool_call_id']} ({call['state']})" for call in group)
    may_have_run = [call for call in group if call["state"] not in DID_NOT_RUN and call["by"]]
    if times > max(1, len(may_have_run)):
        yield "calls_run_twice", f"{names} ran {times} times"
    elif times > len(may_have_run):
        yield "ran_undecided", f"{names} ran, and nobody let it"
    if times < sum(call["state"] == "success" for call in may_have_run):
        yield "dishonest_states", f"{names} is called a success more often than it ran"
    in_question = False
    for call in group:
        if in_question and call["by"] not in (None, "user"):
            yield "ran_undecided", f"{call['tool_call_id']} repeats a call whose outcome is unknown, by {call['by']}"
        in_question = in_question or call["state"] == "unknown"
        if not call.get("result", True):
            yield "dishonest_states", f"the model hears nothing of {call['tool_call_id']}, which is {call['state']}"


def counted(path: Path) -> Counter[str]:
    """How often each call left its trace in the world."""
    return Counter(path.read_text(encoding="utf-8").split()) if path.exists() else Counter()


def read_log(path: Path) -> dict[str, dict[str, Any]]:
    """Every call of a log whose process is dead, by id, with the status of its run."""
    connection = sqlite3.connect(path)
    try:
        if not connection.execute("PRAGMA user_version").fetchone()[0]:
            return {}  # killed before there was a schema
        names = "tool_call_id, approval_id, state, decided_via, tool_input, unknown_answer, tool_calls.run_id, status"
        rows = connection.execute(
            f"SELECT {names} FROM tool_calls JOIN runs ON runs.run_id = tool_calls.run_id ORDER BY tool_calls.number"
        )
        columns = ["tool_call_id", "approval_id", "state", "by", "tool_input", "unknown_answer", "run_id", "run_status"]
        return {row[0]: dict(zip(columns, row, strict=True)) for row in rows}
    finally:
        connection.close()


def read_frames(path: Path, conversation_id: str) -> list[dict[str, Any]]:
    """Every event of a conversation as the log holds it."""
    connection = sqlite3.connect(path)
    try:
        (number,) = connection.execute(
            "SELECT number FROM conversations WHERE conversation_id = ?", (conversation_id,)
        ).fetchone()
        return [json.loads(frame.text) for frame in frames_after(connection, number, conversation_id, 0, sys.maxsize)]
    finally:
        connection.close()
