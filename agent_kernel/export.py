"""Exports a run of the log as a notebook, as messages or as Markdown, for `agent-kernel export`."""

import json
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agent_kernel.errors import ConfigurationError
from agent_kernel.log import message_rows, runs
from agent_kernel.protocol.run_results import RunResult
from agent_kernel.record import render_record
from agent_kernel.record.as_cells import all_cells, as_document
from agent_kernel.runtime.turns.tool_messages import read_result
from agent_kernel.tools.review.hidden import reveal

LAST = "last"
LISTED = 20
"""How many runs `list_runs` lists."""
_PROMPT = 60
_ID = 12
"""Characters of a run's id in a list: `run_` and eight digits."""


class NoSuchRun(ConfigurationError):
    """There is no run with this id, or more than one. The message lists the last runs."""


@dataclass(frozen=True, slots=True)
class LoggedRun:
    result: RunResult
    conversation: int
    """The conversation's number in the log."""


def as_notebook(_: sqlite3.Connection, run: LoggedRun) -> str:
    """A notebook, as JSON text, that repeats the run's calls without an agent."""
    document = as_document(all_cells(run.result.run, run.result.messages, run.result.tool_calls))
    return json.dumps(document, indent=1, ensure_ascii=False)


def as_markdown(_: sqlite3.Connection, run: LoggedRun) -> str:
    """The static record in Markdown."""
    return render_record(run.result.run, run.result.messages, run.result.tool_calls)["text/markdown"]


def as_messages(sql: sqlite3.Connection, run: LoggedRun) -> str:
    """The conversation up to the end of the run: a list of messages in OpenAI's chat format, as JSON text.

    The messages are those that the model got, without the system prompt, descriptions of the notebook, pictures, and
    fields of single providers.
    """
    messages = [(run_id, body) for _, run_id, body in message_rows.read_messages(sql, run.conversation)]
    own = [position for position, (run_id, _) in enumerate(messages) if run_id == run.result.run.run_id]
    exported = [_chat_message(body) for _, body in messages[: own[-1] + 1 if own else 0]]
    return json.dumps(exported, indent=1, ensure_ascii=False)


def _chat_message(body: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {name: body[name] for name in ("role", "content", "tool_call_id") if name in body}
    if calls := body.get("tool_calls"):
        message["tool_calls"] = [{"id": call["id"], "type": "function", "function": call["function"]} for call in calls]
    return message


Form = Callable[[sqlite3.Connection, LoggedRun], str]


def read_run(sql: sqlite3.Connection, wanted: str) -> LoggedRun:
    """Read a run by its id, the beginning of its id, or `last`. Raises `NoSuchRun`."""
    run_id = _find(sql, wanted)
    view = runs.read_run(sql, run_id)
    number = runs.read_conversation(sql, view.conversation_id).number
    return LoggedRun(read_result(sql, number, view), number)


def _find(sql: sqlite3.Connection, wanted: str) -> str:
    if wanted == LAST:
        found = sql.execute("SELECT run_id FROM runs ORDER BY number DESC LIMIT 1").fetchall()
    else:
        begins = wanted if wanted.startswith("run_") else f"run_{wanted}"
        found = sql.execute(
            "SELECT run_id FROM runs WHERE substr(run_id, 1, length(:begins)) = :begins ORDER BY number DESC LIMIT 2",
            {"begins": begins},
        ).fetchall()
    if len(found) == 1 and wanted:
        return str(found[0][0])
    fault = f"More than one run begins with {wanted!r}." if found else f"There is no run {wanted!r} in this log."
    raise NoSuchRun(f"{fault} {_last_runs(sql)}")


def _last_runs(sql: sqlite3.Connection) -> str:
    listed = list_runs(sql)
    return f"The last ones:\n{listed}" if listed else f"It has none. {IN_MEMORY}"


IN_MEMORY = "Runs of a kernel without a server that has the extension are in no log: there, use run.to_cells()."


def list_runs(sql: sqlite3.Connection) -> str:
    """The last runs, one a line, the newest first; empty if the log has none."""
    rows = sql.execute(
        f"SELECT notebook_path, {runs.RUN} FROM runs JOIN conversations ON conversations.number = conversation "
        "ORDER BY runs.number DESC LIMIT ?",
        (LISTED,),
    )
    lines = []
    for path, *stored in rows:
        values = runs.run_values(*stored)
        prompt = reveal(" ".join(values["prompt"].split()))[:_PROMPT]
        where = f"  {path}" if path else ""
        lines.append(
            f"  {values['run_id'][:_ID]}  {values['started_at'][:16]}  {values['status']:<9}  {prompt}{reveal(where)}"
        )
    return "\n".join(lines)
