"""The audit trail: every decision and outcome is in it, nothing gets out of it, and whoever changes it is noticed."""

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_kernel import cli
from agent_kernel.log import audit, runs, tool_calls
from agent_kernel.log.audit import AuditedEntry
from agent_kernel.log.tables import make_tables
from agent_kernel.tools.arguments import digest

CODE = '{"code":"1"}'
EDITED = '{"code":"2"}'
YES = tool_calls.Verdict(True, "user", decided_by="ana", scope="conversation")


def propose(sql: sqlite3.Connection, name: str, conversation: int = 1) -> None:
    if not sql.in_transaction:
        sql.execute("BEGIN")
    asked = ("run", "run_python", CODE, digest(CODE))
    proposal = tool_calls.Proposal(name, f"apr_{name}", *asked, read_only=False, recorded=False)
    tool_calls.propose(sql, conversation, proposal)


def approve_and_run(
    sql: sqlite3.Connection, name: str, verdict: tool_calls.Verdict = YES, audited: list[AuditedEntry] | None = None
) -> None:
    audited = [] if audited is None else audited
    propose(sql, name)
    tool_calls.commit_decision(sql, f"apr_{name}", verdict, audited, denial="Denied.")
    call = tool_calls.read_call(sql, 1, name)
    tool_calls.begin(sql, 1, name, call.digest)
    tool_calls.move(sql, 1, name, "success", audited, result="1", duration_ms=3)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log with three calls: six entries."""
    path = tmp_path / "log.sqlite"
    sql = connect(path)
    make_tables(sql)
    runs.add_conversation(sql, "conv", "k", None, None)
    for name in ("c1", "c2", "c3"):
        approve_and_run(sql, name)
    sql.execute("COMMIT")
    sql.close()
    return path


@pytest.fixture
def sql(log: Path) -> Iterator[sqlite3.Connection]:
    connection = connect(log)
    yield connection
    connection.close()


def connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None)


def tamper(sql: sqlite3.Connection, *statements: str) -> None:
    """What somebody does who may write the file: away with the guards, then the change."""
    for (name,) in sql.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        sql.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        sql.execute(statement)


def lines(sql: sqlite3.Connection) -> list[dict[str, Any]]:
    return [json.loads(line) for line in audit.export(sql)]


def test_each_decision_and_each_outcome_is_an_entry(sql: sqlite3.Connection) -> None:
    decision, outcome = lines(sql)[:2]
    call = tool_calls.read_call(sql, 1, "c1")
    decided = {"kind": "decision", "decision": "approved", "by": "user", "decided_by": "ana", "scope": "conversation"}
    asked = {"tool_name": "run_python", "arguments": CODE, "digest": digest(CODE), "at": call.decided_at}
    names = {"conversation_id": "conv", "tool_call_id": "c1", "approval_id": "apr_c1"}
    assert decision.items() >= (decided | asked | names).items()
    ended = {"kind": "outcome", "state": "success", "duration_ms": 3, "started_at": call.started_at}
    assert outcome.items() >= ended.items()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit SET entry = '{}' WHERE number = 2",
        "DELETE FROM audit WHERE number = 6",
        "UPDATE audit_head SET hash = ''",
    ],
)
def test_sqlite_refuses_to_change_or_remove_an_entry(sql: sqlite3.Connection, statement: str) -> None:
    before = sql.execute("SELECT * FROM audit, audit_head").fetchall()
    with pytest.raises(sqlite3.IntegrityError, match="only grows"):
        sql.execute(statement)
    assert sql.execute("SELECT * FROM audit, audit_head").fetchall() == before


REHASHED = json.dumps({"number": 3, "previous": "x"})


@pytest.mark.parametrize(
    ("statements", "number", "why"),
    [
        (["UPDATE audit SET entry = replace(entry, 'ana', 'eve') WHERE number = 3"], 3, "changed"),
        ([f"UPDATE audit SET entry = '{REHASHED}', hash = '{{sha:{REHASHED}}}' WHERE number = 3"], 3, "not written"),
        (["DELETE FROM audit WHERE number IN (3, 4)"], 5, "follows entry 2: what was between them was removed"),
        (["DELETE FROM audit WHERE number > 4"], 5, "removed, with all that followed it up to 6"),
        (["UPDATE audit_head SET hash = ''"], 6, "not the entry that was written last"),
    ],
)
def test_tampering_is_noticed_and_the_first_bad_entry_is_named(
    log: Path, sql: sqlite3.Connection, statements: list[str], number: int, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tamper(sql, *(_with_hash(statement) for statement in statements))
    fault = audit.check(sql)
    assert fault is not None
    assert (fault.number, why in fault.why) == (number, True)
    assert cli.main(["audit", "--check", "--log", str(log)]) == 1
    assert f"Entry {number} does not fit" in capsys.readouterr().err


def _with_hash(statement: str) -> str:
    """`{sha:TEXT}` is the hash of TEXT: the forger who knows how the chain is made."""
    before, mark, rest = statement.partition("{sha:")
    if not mark:
        return statement
    text, _, after = rest.rpartition("}")
    return before + hashlib.sha256(text.encode()).hexdigest() + after


def test_the_export_is_a_chain_that_anybody_can_check(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["audit", "--log", str(log)]) == 0
    previous = "0" * 64
    exported = capsys.readouterr().out.splitlines()
    assert len(exported) == 6
    for line in exported:
        entry = json.loads(line)
        assert entry["previous"] == previous
        assert line == json.dumps(entry, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        previous = hashlib.sha256(line.encode()).hexdigest()
    assert cli.main(["audit", "--check", "--log", str(log)]) == 0
    assert previous in capsys.readouterr().out


def test_the_export_takes_one_conversation_or_what_is_new(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sql = connect(log)
    runs.add_conversation(sql, "other", "k", None, None)
    propose(sql, "c9", conversation=2)
    tool_calls.move(sql, 2, "c9", "cancelled", [], ended_at="2100-01-01T00:00:00.000Z")
    sql.execute("COMMIT")
    sql.close()
    for options in (["--conversation", "other"], ["--since", "2099-12-31"], ["--since", "2100-01-01T00:00:00+00:00"]):
        assert cli.main(["audit", "--log", str(log), *options]) == 0
        (line,) = capsys.readouterr().out.splitlines()
        assert json.loads(line)["tool_call_id"] == "c9"
    assert cli.main(["audit", "--log", str(log), "--since", "2100-01-01T00:00:01"]) == 0
    assert capsys.readouterr().out == ""


def test_an_edit_is_recorded_with_the_arguments_that_ran(sql: sqlite3.Connection) -> None:
    approve_and_run(sql, "c4", tool_calls.Verdict(True, "user", edit=tool_calls.Edit(EDITED, digest(EDITED))))
    decision = lines(sql)[-2]
    assert (decision["arguments"], decision["edited"], decision["digest"]) == (EDITED, True, digest(EDITED))


def test_a_denial_is_a_decision_and_an_outcome_with_its_reason(sql: sqlite3.Connection) -> None:
    propose(sql, "c4")
    denial = tool_calls.Verdict(False, "policy", "No shell here.")
    tool_calls.commit_decision(sql, "apr_c4", denial, [], denial="Denied.")
    decision, outcome = lines(sql)[-2:]
    assert (decision["decision"], decision["by"], decision["reason"]) == ("denied", "policy", "No shell here.")
    assert (outcome["state"], outcome["reason"]) == ("denied", "No shell here.")


def test_the_trail_outlives_its_conversation(sql: sqlite3.Connection) -> None:
    sql.execute("PRAGMA foreign_keys = ON")
    runs.delete_conversation(sql, "conv")
    assert sql.execute("SELECT count(*) FROM tool_calls").fetchone() == (0,)
    assert len(lines(sql)) == 6
    assert audit.check(sql) is None
