"""The state machine of tool calls: each invariant, broken on purpose."""

import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agent_kernel.errors import AlreadyDecided, DigestMismatch, IllegalTransition
from agent_kernel.log import audit, runs, tool_calls
from agent_kernel.log.store import Log
from agent_kernel.log.tables import make_tables
from agent_kernel.protocol.views import ToolCallView
from agent_kernel.protocol.vocabulary import CallState
from agent_kernel.tools.arguments import digest

CODE, OTHER = '{"code":"1"}', '{"code":"2"}'
YES = tool_calls.Verdict(True, "user")
NO = tool_calls.Verdict(False, "user", "Because.")


class Call:
    """A call that was proposed."""

    def __init__(self, sql: sqlite3.Connection) -> None:
        self._sql = sql
        proposal = tool_calls.Proposal(
            "c1", "apr_c1", "run", "run_python", CODE, digest(CODE), read_only=False, recorded=False
        )
        tool_calls.propose(sql, 1, proposal)

    def decide(self, verdict: tool_calls.Verdict = YES, seen: str | None = None) -> ToolCallView:
        seen_digest = None if seen is None else digest(seen)
        return tool_calls.commit_decision(self._sql, "apr_c1", verdict, [], denial="Denied.", seen_digest=seen_digest)

    def begin(self, arguments: str = CODE) -> None:
        tool_calls.begin(self._sql, 1, "c1", digest(arguments))

    def move(self, state: CallState) -> None:
        tool_calls.move(self._sql, 1, "c1", state, [])

    @property
    def state(self) -> CallState:
        return tool_calls.read_call(self._sql, 1, "c1").state


@pytest.fixture
def sql() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        make_tables(connection)
        runs.add_conversation(connection, "conv", "k", None, None)
        yield connection


@pytest.fixture
def call(sql: sqlite3.Connection) -> Call:
    return Call(sql)


def test_nothing_runs_undecided(call: Call) -> None:
    with pytest.raises(IllegalTransition):
        call.begin()
    call.move("awaiting_approval")
    with pytest.raises(IllegalTransition):
        call.begin()
    assert call.state == "awaiting_approval"


@pytest.mark.parametrize("end", ["executing", "success", "unknown"])
def test_nothing_runs_twice_and_an_unknown_outcome_is_never_rerun(call: Call, end: CallState) -> None:
    call.decide()
    call.begin()
    if end != "executing":
        call.move(end)
        for target in ("approved", "executing"):
            with pytest.raises(IllegalTransition):
                call.move(target)
    with pytest.raises(IllegalTransition):
        call.begin()
    with pytest.raises(AlreadyDecided):
        call.decide()
    assert call.state == end


def test_an_approval_is_for_exactly_these_arguments(call: Call) -> None:
    with pytest.raises(DigestMismatch):
        call.decide(seen=OTHER)
    assert call.state == "proposed"
    call.decide(seen=CODE)
    with pytest.raises(DigestMismatch):
        call.begin(OTHER)


def test_an_edit_makes_a_new_digest_and_the_first_one_is_void(call: Call) -> None:
    edited = call.decide(tool_calls.Verdict(True, "user", edit=tool_calls.Edit(OTHER, digest(OTHER))))
    assert (edited.tool_input, edited.digest, edited.edited) == (OTHER, digest(OTHER), True)
    with pytest.raises(DigestMismatch):
        call.begin(CODE)
    call.begin(OTHER)


def test_a_denied_call_does_not_start_and_the_first_decision_wins(call: Call, sql: sqlite3.Connection) -> None:
    denied = call.decide(NO)
    assert (denied.state, denied.started_at) == ("denied", None)
    with pytest.raises(IllegalTransition):
        call.begin()
    with pytest.raises(AlreadyDecided) as second:
        call.decide()
    assert (second.value.first["state"], second.value.first["reason"]) == ("denied", "Because.")
    assert [one.fields["decision"] for one in audit.read_entries(sql) if one.fields["kind"] == "decision"] == ["denied"]


async def test_the_log_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "data" / "log.sqlite"
    log = await Log.open(path)
    await log.write(lambda t: runs.add_conversation(t.sql, "conv", None, None, None))
    modes = {stat.S_IMODE(beside.stat().st_mode) for beside in (path, *path.parent.iterdir())}
    assert modes == {0o600}
    await log.aclose()
