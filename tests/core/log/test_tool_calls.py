"""The state machine of tool calls: each invariant, broken on purpose."""

import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_kernel.errors import (
    AlreadyDecided,
    DigestMismatch,
    IllegalTransition,
)
from agent_kernel.log import audit, runs, tool_calls
from agent_kernel.log.store import Log
from agent_kernel.log.tables import make_tables
from agent_kernel.protocol.vocabulary import CallState
from agent_kernel.tools.arguments import digest

CODE = '{"code":"1"}'
YES = tool_calls.Verdict(True, "user")
NO = tool_calls.Verdict(False, "user", "Because.")


@pytest.fixture
def sql() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    make_tables(connection)
    runs.add_conversation(connection, "conv", "k", None, None)
    yield connection
    connection.close()


def proposal(name: str = "c1") -> tool_calls.Proposal:
    return tool_calls.Proposal(
        name, f"apr_{name}", "run", "run_python", CODE, digest(CODE), read_only=False, recorded=False
    )


def propose(sql: sqlite3.Connection, name: str = "c1") -> None:
    tool_calls.propose(sql, 1, proposal(name))


def state(sql: sqlite3.Connection, name: str = "c1") -> CallState:
    return tool_calls.read_call(sql, 1, name).state


def test_nothing_runs_undecided(sql: sqlite3.Connection) -> None:
    propose(sql)
    with pytest.raises(IllegalTransition):
        tool_calls.begin(sql, 1, "c1", digest(CODE))
    tool_calls.move(sql, 1, "c1", "awaiting_approval", [])
    with pytest.raises(IllegalTransition):
        tool_calls.begin(sql, 1, "c1", digest(CODE))
    assert state(sql) == "awaiting_approval"


def test_nothing_runs_twice(sql: sqlite3.Connection) -> None:
    propose(sql)
    tool_calls.commit_decision(sql, "apr_c1", YES, [], denial="")
    tool_calls.begin(sql, 1, "c1", digest(CODE))
    with pytest.raises(IllegalTransition):
        tool_calls.begin(sql, 1, "c1", digest(CODE))
    tool_calls.move(sql, 1, "c1", "success", [], result="1")
    with pytest.raises(IllegalTransition):
        tool_calls.begin(sql, 1, "c1", digest(CODE))


def test_an_unknown_outcome_is_never_rerun(sql: sqlite3.Connection) -> None:
    propose(sql)
    tool_calls.commit_decision(sql, "apr_c1", YES, [], denial="")
    tool_calls.begin(sql, 1, "c1", digest(CODE))
    tool_calls.move(sql, 1, "c1", "unknown", [])
    for target in ("approved", "executing", "success"):
        with pytest.raises(IllegalTransition):
            tool_calls.move(sql, 1, "c1", target, [])
    with pytest.raises(AlreadyDecided):
        tool_calls.commit_decision(sql, "apr_c1", YES, [], denial="")


def test_an_approval_is_for_exactly_these_arguments(sql: sqlite3.Connection) -> None:
    propose(sql)
    with pytest.raises(DigestMismatch):
        tool_calls.commit_decision(sql, "apr_c1", YES, [], denial="", seen_digest=digest('{"code":"2"}'))
    assert state(sql) == "proposed"
    tool_calls.commit_decision(sql, "apr_c1", YES, [], denial="", seen_digest=digest(CODE))
    with pytest.raises(DigestMismatch):
        tool_calls.begin(sql, 1, "c1", digest('{"code":"2"}'))


def test_an_edit_makes_a_new_digest_and_the_first_one_is_void(sql: sqlite3.Connection) -> None:
    propose(sql)
    edited = '{"code":"2"}'
    verdict = tool_calls.Verdict(True, "user", edit=tool_calls.Edit(edited, digest(edited)))
    call = tool_calls.commit_decision(sql, "apr_c1", verdict, [], denial="")
    assert (call.tool_input, call.digest, call.edited) == (edited, digest(edited), True)
    with pytest.raises(DigestMismatch):
        tool_calls.begin(sql, 1, "c1", digest(CODE))
    tool_calls.begin(sql, 1, "c1", digest(edited))


def test_a_denied_call_does_not_start_and_the_first_decision_wins(sql: sqlite3.Connection) -> None:
    propose(sql)
    denied = tool_calls.commit_decision(sql, "apr_c1", NO, [], denial="Denied.")
    assert (denied.state, denied.started_at) == ("denied", None)
    with pytest.raises(IllegalTransition):
        tool_calls.begin(sql, 1, "c1", digest(CODE))
    with pytest.raises(AlreadyDecided) as second:
        tool_calls.commit_decision(sql, "apr_c1", YES, [], denial="")
    assert second.value.first["state"] == "denied"
    assert second.value.first["reason"] == "Because."
    assert [one.fields["decision"] for one in audit.read_entries(sql) if one.fields["kind"] == "decision"] == ["denied"]


async def test_the_log_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "data" / "log.sqlite"
    log = await Log.open(path)
    await log.write(lambda t: runs.add_conversation(t.sql, "conv", None, None, None))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for beside in path.parent.iterdir():
        assert stat.S_IMODE(beside.stat().st_mode) == 0o600, beside
    await log.aclose()
