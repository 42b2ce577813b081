"""Conversations and runs as rows."""

import hashlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Literal, cast

import orjson
from pydantic import TypeAdapter

from agent_kernel.errors import CarriedOutElsewhere, IllegalTransition, NotFound, UnknownConversation, UnknownRun
from agent_kernel.log.packing import pack, unpack
from agent_kernel.protocol.events import utc_now
from agent_kernel.protocol.tools import ToolDeclaration
from agent_kernel.protocol.views import RunView
from agent_kernel.protocol.vocabulary import PolicyMode


@dataclass(frozen=True, slots=True)
class ConversationRow:
    number: int
    """The key that other tables use: smaller than `conversation_id`."""
    conversation_id: str
    kernel_id: str | None
    model: str | None
    notebook_path: str | None
    created_at: str
    client: str | None = None
    """The agent outside that asks in it, by the name that it gave; `None` for one of a cell or a page."""
    client_user: str | None = None
    """The user on whose behalf that agent asks, as far as one is known."""
    client_home: str | None = None
    """The first conversation of this client in this notebook, whose rules it shares."""


CONVERSATION = "number, conversation_id, kernel_id, model, notebook_path, created_at, client, client_user, client_home"
"""The columns of a `ConversationRow`."""
RUN = "run_id, (SELECT conversation_id FROM conversations WHERE conversations.number = conversation), status, view"
"""The columns that `run_values` takes, for a SELECT and for RETURNING alike."""

_COLUMNS = {"run_id", "conversation_id", "status"}
"""The fields of a run that are columns of their own."""
RunColumns = tuple[str, str, str, str | bytes]


def add_conversation(
    sql: sqlite3.Connection,
    conversation_id: str,
    kernel_id: str | None,
    model: str | None,
    notebook_path: str | None,
    *,
    client: str | None = None,
    client_user: str | None = None,
    client_home: str | None = None,
) -> ConversationRow:
    sql.execute(
        f"INSERT INTO conversations ({CONVERSATION}) VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)",
        (conversation_id, kernel_id, model, notebook_path, utc_now(), client, client_user, client_home),
    )
    return read_conversation(sql, conversation_id)


def one_row(sql: sqlite3.Connection, query: str, identifier: str, unknown: type[NotFound]) -> Any:
    """The row that a query finds by an identifier. Raises `unknown` if there is none."""
    row = sql.execute(query, (identifier,)).fetchone()
    if row is None:
        raise unknown(identifier)
    return row


def read_conversation(sql: sqlite3.Connection, conversation_id: str) -> ConversationRow:
    """Raises `UnknownConversation`."""
    query = f"SELECT {CONVERSATION} FROM conversations WHERE conversation_id = ?"
    return ConversationRow(*one_row(sql, query, conversation_id, UnknownConversation))


def list_conversations(sql: sqlite3.Connection, after: int, limit: int) -> list[ConversationRow]:
    """The conversations after a number, the oldest first; all of them where the limit is negative."""
    query = f"SELECT {CONVERSATION} FROM conversations WHERE number > ? ORDER BY number LIMIT ?"
    return [ConversationRow(*row) for row in sql.execute(query, (after, limit))]


def count_conversations(sql: sqlite3.Connection) -> int:
    (count,) = sql.execute("SELECT count(*) FROM conversations").fetchone()
    return int(count)


def empty_conversations(sql: sqlite3.Connection, most: int) -> list[tuple[str, str]]:
    """The oldest conversations that never had a run, at most `most`: the id and the time of creation of each."""
    return sql.execute(
        "SELECT conversation_id, created_at FROM conversations "
        "WHERE NOT EXISTS (SELECT 1 FROM runs WHERE conversation = conversations.number) ORDER BY number LIMIT ?",
        (most,),
    ).fetchall()


def delete_conversation(sql: sqlite3.Connection, conversation_id: str) -> None:
    """Its messages, events and calls are deleted with it; audit entries stay."""
    sql.execute("DELETE FROM conversations WHERE conversation_id = ?", (conversation_id,))


@dataclass(frozen=True, slots=True)
class StoredSpec:
    """The specification of a run, as JSON: with its prompt, enough to go on with it in another process. Sets of tools
    are stored once each, because every run of a notebook offers the same ones."""

    run_id: str
    spec: str
    tools: str
    widget_model_id: str | None


def add_run(sql: sqlite3.Connection, conversation: int, run: RunView, stored: StoredSpec) -> None:
    """Raises `IllegalTransition` for a run, or a widget, that the log knows; `CarriedOutElsewhere`."""
    refuse_elsewhere(sql, conversation)
    tool_set = _tool_set(sql, stored.tools)
    row = (run.run_id, conversation, stored.widget_model_id, run.status, _packed(run), stored.spec, tool_set)
    try:
        sql.execute(
            "INSERT INTO runs (run_id, conversation, widget_model_id, status, view, spec, tool_set, owner) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, this_process())",
            row,
        )
    except sqlite3.IntegrityError as error:
        raise IllegalTransition(f"The run {run.run_id} or its widget is in the log already.") from error


def _tool_set(sql: sqlite3.Connection, tools: str) -> str:
    """Store a set of tools, given as JSON. Returns its digest."""
    digest = hashlib.sha256(tools.encode()).hexdigest()
    sql.execute("INSERT OR IGNORE INTO tool_sets VALUES (?, ?)", (digest, tools))
    return digest


def save_tools(sql: sqlite3.Connection, run_id: str, tools: tuple[ToolDeclaration, ...]) -> None:
    """Store that a run has these tools from now on."""
    text = TypeAdapter(tuple[ToolDeclaration, ...]).dump_json(tools).decode()
    sql.execute("UPDATE runs SET tool_set = ? WHERE run_id = ?", (_tool_set(sql, text), run_id))


def save_run(sql: sqlite3.Connection, run: RunView) -> None:
    sql.execute("UPDATE runs SET status = ?, view = ? WHERE run_id = ?", (run.status, _packed(run), run.run_id))


def set_in_spec(
    sql: sqlite3.Connection, run_id: str, name: Literal["limits", "script", "too_long"], value: str
) -> None:
    """Store what became known of a run in its specification, as JSON: what files in the notebook's folder asked for
    when it began, the decisions of the recording that it plays, or that its prompt is too long for its model."""
    sql.execute(f"UPDATE runs SET spec = json_set(spec, '$.{name}', json(?)) WHERE run_id = ?", (value, run_id))


def save_reopened(sql: sqlite3.Connection, run: RunView) -> None:
    """As `save_run`, for a run that had ended and that this process goes on with."""
    save_run(sql, run)
    sql.execute("UPDATE runs SET owner = this_process() WHERE run_id = ?", (run.run_id,))


def policy_of_run(sql: sqlite3.Connection, run_id: str) -> PolicyMode | None:
    """The policy in a run's specification: declared, or chosen by a person while it ran. Else the one that was chosen
    for its conversation; `None` if there is none."""
    row = sql.execute(
        "SELECT coalesce(json_extract(spec, '$.policy'), policy) "
        "FROM runs JOIN conversations ON conversation = conversations.number WHERE run_id = ?",
        (run_id,),
    ).fetchone()
    return row[0] if row is not None else None


def replaced_runs(sql: sqlite3.Connection, conversation: int) -> list[tuple[str, list[str]]]:
    """The runs of a conversation that replaced earlier ones, in order, each with the ids of those."""
    rows = sql.execute(
        "SELECT run_id, json_extract(spec, '$.replaces') FROM runs "
        "WHERE conversation = ? AND instr(spec, '\"replaces\"') ORDER BY number",
        (conversation,),
    )
    return [(run_id, orjson.loads(replaces)) for run_id, replaces in rows if replaces is not None]


def too_long_runs(sql: sqlite3.Connection, conversation: int) -> set[str]:
    """The runs of a conversation that ended because their prompts are too long, and were not tried again with more
    success."""
    rows = sql.execute(
        "SELECT run_id FROM runs WHERE conversation = ? AND status = 'error' AND instr(spec, '\"too_long\"')",
        (conversation,),
    )
    return {run_id for (run_id,) in rows}


def chosen_policy(sql: sqlite3.Connection, conversation: int) -> PolicyMode | None:
    """The policy that a person chose for a conversation, for prompts that name none."""
    (chosen,) = sql.execute("SELECT policy FROM conversations WHERE number = ?", (conversation,)).fetchone()
    return cast("PolicyMode | None", chosen)


def choose_policy(sql: sqlite3.Connection, conversation: int, mode: PolicyMode) -> None:
    """Set the policy of a conversation, and of its run that is under way whatever that one named."""
    sql.execute("UPDATE conversations SET policy = ? WHERE number = ?", (mode, conversation))
    sql.execute(
        "UPDATE runs SET spec = json_set(spec, '$.policy', ?) WHERE conversation = ? AND status = 'running'",
        (mode, conversation),
    )


def has_open_run(sql: sqlite3.Connection, conversation: int) -> bool:
    """Whether a run of this conversation is queued or running."""
    row = sql.execute(
        "SELECT 1 FROM runs WHERE conversation = ? AND status IN ('queued', 'running')", (conversation,)
    ).fetchone()
    return row is not None


def refuse_elsewhere(sql: sqlite3.Connection, conversation: int) -> None:
    """Raises `CarriedOutElsewhere` if another live process has a run of this conversation open."""
    row = sql.execute(
        "SELECT 1 FROM runs WHERE conversation = ? AND status IN ('queued', 'running') AND lives_elsewhere(owner)",
        (conversation,),
    ).fetchone()
    if row is not None:
        raise CarriedOutElsewhere


_SPEC = "SELECT run_id, spec, tools, widget_model_id FROM runs JOIN tool_sets ON tool_set = digest"
"""The columns of a `StoredSpec`."""


def read_spec(sql: sqlite3.Connection, run_id: str) -> StoredSpec:
    """Raises `UnknownRun`."""
    return StoredSpec(*one_row(sql, f"{_SPEC} WHERE run_id = ?", run_id, UnknownRun))


def read_run(sql: sqlite3.Connection, run_id: str) -> RunView:
    """Raises `UnknownRun`."""
    return _view(*one_row(sql, f"SELECT {RUN} FROM runs WHERE run_id = ?", run_id, UnknownRun))


def list_runs(sql: sqlite3.Connection, conversation: int) -> list[RunView]:
    """The runs of a conversation, in order."""
    rows = sql.execute(f"SELECT {RUN} FROM runs WHERE conversation = ? ORDER BY number", (conversation,))
    return [_view(*row) for row in rows]


def earlier_runs(sql: sqlite3.Connection, conversation: int, run_id: str) -> Iterator[RunView]:
    """The runs of a conversation that were asked for before this one, the last first, read as they are asked for."""
    rows = sql.execute(
        f"SELECT {RUN} FROM runs WHERE conversation = ? AND number < (SELECT number FROM runs WHERE run_id = ?) "
        "ORDER BY number DESC",
        (conversation, run_id),
    )
    return (_view(*row) for row in rows)


def last_spec(sql: sqlite3.Connection, conversation: int) -> StoredSpec | None:
    """The specification of the newest run of a conversation."""
    row = sql.execute(f"{_SPEC} WHERE conversation = ? ORDER BY number DESC LIMIT 1", (conversation,)).fetchone()
    return StoredSpec(*row) if row else None


def declared_as(sql: sqlite3.Connection, tool_name: str) -> list[ToolDeclaration]:
    """The declarations that runs had of a tool, the latest last. It reads all sets of tools."""
    found = sql.execute(
        "SELECT value, max(number) FROM runs JOIN tool_sets ON tool_set = digest, json_each(tools) "
        "WHERE json_extract(value, '$.name') = ? GROUP BY value ORDER BY 2",
        (tool_name,),
    )
    return [TypeAdapter(ToolDeclaration).validate_json(value) for value, _ in found]


def run_of_widget(sql: sqlite3.Connection, widget_model_id: str) -> RunView | None:
    """The run that a widget shows, if it is in the log."""
    row = sql.execute(f"SELECT {RUN} FROM runs WHERE widget_model_id = ?", (widget_model_id,)).fetchone()
    return _view(*row) if row else None


def open_runs(sql: sqlite3.Connection) -> list[RunView]:
    """All runs that are queued or running, in any process, the oldest first."""
    rows = sql.execute(f"SELECT {RUN} FROM runs WHERE status IN ('queued', 'running') ORDER BY number")
    return [_view(*row) for row in rows]


@dataclass(frozen=True, slots=True)
class PlacedRun:
    """A run, with the kernel and notebook of its conversation."""

    conversation: int
    kernel_id: str | None
    notebook_path: str | None
    """The conversation's; its spec may name another."""
    spec: dict[str, Any]
    values: dict[str, Any]
    """The fields of `RunView`."""


_PLACED = (
    f"SELECT conversation, kernel_id, notebook_path, spec, {RUN} "
    "FROM runs JOIN conversations ON conversation = conversations.number"
)


def read_placed(sql: sqlite3.Connection, run_id: str) -> PlacedRun:
    """Raises `UnknownRun`."""
    return _placed(*one_row(sql, f"{_PLACED} WHERE run_id = ?", run_id, UnknownRun))


def list_placed(sql: sqlite3.Connection, ended: int, run_id: str | None = None) -> list[PlacedRun]:
    """All open runs, the newest `ended` of the others, and `run_id`, the oldest first."""
    rows = sql.execute(
        f"{_PLACED} WHERE status IN ('queued', 'running') OR run_id = ? OR runs.number IN "
        "(SELECT number FROM runs WHERE status NOT IN ('queued', 'running') ORDER BY number DESC LIMIT ?) "
        "ORDER BY runs.number",
        (run_id, ended),
    )
    return [_placed(*row) for row in rows]


def _placed(
    conversation: int, kernel_id: str | None, notebook_path: str | None, spec: str, *run: *RunColumns
) -> PlacedRun:
    return PlacedRun(conversation, kernel_id, notebook_path, orjson.loads(spec), run_values(*run))


def rename_notebooks(sql: sqlite3.Connection, old: str, new: str) -> None:
    """Give a notebook, or all notebooks in a folder, its new path."""
    path = "json_extract(spec, '$.notebook_path')"
    names = {"old": old, "new": new, "below": f"{old}/"}
    for table, column in (("conversations", "notebook_path"), ("runs", path)):
        renamed = f":new || substr({column}, length(:old) + 1)"
        change = f"spec = json_set(spec, '$.notebook_path', {renamed})" if table == "runs" else f"{column} = {renamed}"
        sql.execute(
            f"UPDATE {table} SET {change} WHERE {column} = :old OR substr({column}, 1, length(:below)) = :below", names
        )


def run_ahead(sql: sqlite3.Connection, conversation: int, run_id: str) -> RunView | None:
    """The open run of a conversation that is just before this one in the queue."""
    row = sql.execute(
        f"SELECT {RUN} FROM runs WHERE conversation = ? AND status IN ('queued', 'running') "
        "AND number < (SELECT number FROM runs WHERE run_id = ?) ORDER BY number DESC LIMIT 1",
        (conversation, run_id),
    ).fetchone()
    return _view(*row) if row else None


def take_unfinished(sql: sqlite3.Connection) -> list[RunView]:
    """Take over the open runs of processes that have ended, and return them, the oldest first."""
    rows = sql.execute(
        "UPDATE runs SET owner = this_process() WHERE status IN ('queued', 'running') AND NOT lives_elsewhere(owner) "
        f"RETURNING number, {RUN}"
    ).fetchall()
    return [_view(*stored) for _, *stored in sorted(rows, key=itemgetter(0))]


def _packed(run: RunView) -> str | bytes:
    """A run as it is stored: without what other columns say."""
    return pack(run.model_dump_json(exclude=_COLUMNS))


def run_values(run_id: str, conversation_id: str, status: str, view: str | bytes) -> dict[str, Any]:
    """The fields of `RunView`, of a row with the columns `RUN`. Raises `Unreadable`."""
    values: dict[str, Any] = orjson.loads(unpack(view))
    return values | {"run_id": run_id, "conversation_id": conversation_id, "status": status}


def _view(*row: *RunColumns) -> RunView:
    return RunView.model_validate(run_values(*row))
