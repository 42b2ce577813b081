"""The progress of an open run at one moment, for the text that a saved notebook shows of it."""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

from agent_kernel.log import runs, tool_calls
from agent_kernel.protocol.views import RunView, ToolCallView
from agent_kernel.protocol.vocabulary import CallState
from agent_kernel.runtime.clients.lists import wait_of


@dataclass(frozen=True, slots=True)
class RunProgress:
    run: RunView
    calls: tuple[ToolCallView, ...]
    """Those that have not ended, or whose unknown outcome no person has answered."""
    ended: Mapping[CallState, int]
    """The number of the others in each state."""
    ahead: RunView | None
    """The run that a queued one waits for."""
    ahead_waits: bool
    """Whether that one waits for a person."""


def read_progress(sql: sqlite3.Connection, conversation: int, run_id: str) -> RunProgress:
    """Raises `UnknownRun`."""
    run = runs.read_run(sql, run_id)
    calls = tool_calls.list_open(sql, conversation)
    own = tuple(call for call in calls if call.run_id == run_id)
    ahead = runs.run_ahead(sql, conversation, run_id) if run.status == "queued" else None
    waits = ahead is not None and (
        ahead.paused is not None or any(wait_of(one) for one in calls if one.run_id == ahead.run_id)
    )
    counts = tool_calls.count_states(sql, conversation, run_id)
    for call in own:
        counts[call.state] -= 1
    ended = {state: count for state, count in counts.items() if count > 0}
    return RunProgress(run, own, ended, ahead, waits)
