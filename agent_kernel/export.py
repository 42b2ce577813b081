"""A run of the log as something to keep or to go on with: a notebook without an agent, messages, a record."""

import json
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agent_kernel.errors import ConfigurationError
from agent_kernel.log import events, runs
from agent_kernel.log.migrations import is_current
from agent_kernel.record import render_record
from agent_kernel.record.cells import all_cells, as_document
from agent_kernel.runtime.state.run import RunResult
from agent_kernel.runtime.turns.messages import read_result
from agent_kernel.tools.review.hidden import reveal

LAST = "last"
LISTED = 20
_PROMPT = 60
_ID = 12
"""How much of a run's id a list shows: `run_` and eight digits."""


class NoSuchRun(ConfigurationError):
    """The message says which there are."""


@dataclass(frozen=True, slots=True)
class LoggedRun:
    result: RunResult
    conversation: int
    """Its number in the log."""


def as_notebook(_: sqlite3.Connection, run: LoggedRun) -> str:
    """A notebook that repeats what the run did."""
    document = as_document(all_cells(run.result.run, run.result.messages, run.result.tool_calls))
    return json.dumps(document, indent=1, ensure_ascii=False)


def as_markdown(_: sqlite3.Connection, run: LoggedRun) -> str:
    return render_record(run.result.run, run.result.messages, run.result.tool_calls)["text/markdown"]


def as_messages(sql: sqlite3.Connection, run: LoggedRun) -> str:
    """What was said in the conversation up to the end of the run: a list of messages in OpenAI's chat format.

    As the model got it, but for what is no word of the conversation: the instructions, what the notebook looked like,
    pictures, and what providers want back.
    """
    said = [(run_id, body) for _, run_id, body in events.read_messages(sql, run.conversation)]
    own = [position for position, (run_id, _) in enumerate(said) if run_id == run.result.run.run_id]
    messages = [_chat_message(body) for _, body in said[: own[-1] + 1 if own else 0]]
    return json.dumps(messages, indent=1, ensure_ascii=False)


def _chat_message(body: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {name: body[name] for name in ("role", "content", "tool_call_id") if name in body}
    if calls := body.get("tool_calls"):
        message["tool_calls"] = [{"id": call["id"], "type": "function", "function": call["function"]} for call in calls]
    return message


Form = Callable[[sqlite3.Connection, LoggedRun], str]


def read_run(sql: sqlite3.Connection, wanted: str) -> LoggedRun:
    """A run by its id, the beginning of it, or `last`. Raises `NoSuchRun`; `ConfigurationError` for a log of
    another version."""
    if not is_current(sql):
        raise ConfigurationError(
            "An older Agent Kernel wrote this log. Start a Jupyter server once: that brings the log up to date."
        )
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
    raise NoSuchRun(f"{fault} {_known(sql)}")


def _known(sql: sqlite3.Connection) -> str:
    listed = list_runs(sql)
    return f"The last ones:\n{listed}" if listed else f"It has none. {IN_MEMORY}"


IN_MEMORY = "Runs of a kernel without a server that has the extension are in no log: there, use run.to_cells()."


def list_runs(sql: sqlite3.Connection) -> str:
    """The last runs, a line each, the newest first."""
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
