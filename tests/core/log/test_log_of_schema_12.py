"""A log that schema 12 wrote, the last one that packed texts against each other, with everything that a log can hold:
finished runs, waiting calls of a suspended run, a call that was executing when the process died, denied and edited
calls, pictures, a shortened conversation, rules, an inbox, and audit entries of all kinds."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agent_kernel import cli
from agent_kernel.log import compactions, events, images, inbox, queries, rules, turns
from agent_kernel.log.audit import chain
from agent_kernel.log.migrations import MIGRATIONS, migrate
from agent_kernel.protocol.commands import Decision
from agent_kernel.runtime.clients.snapshot import read_list, read_snapshot
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.runtime import Runtime
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.testing import ScriptedModel, say
from tests.core.runtime.runtime_fixtures import FunctionExecutor, OneModel

HERE = Path(__file__).parent
WAITING, EXECUTING = "conv_0000000000000000000000000000000a", "conv_00000000000000000000000000000009"
"""The conversation of the suspended run, and the one whose call was executing."""
KINDS = {"decision", "outcome", "rule", "stop", "undo", "budget", "unknown", "message", "policy"}


def lines(name: str) -> list[str]:
    """What the version that wrote the log read from it."""
    return (HERE / name).read_text(encoding="utf-8").split("\n")[:-1]


FRAMES, AUDIT = lines("frames_of_schema_12.jsonl"), lines("audit_of_schema_12.jsonl")


@pytest.fixture
def old_log(tmp_path: Path) -> Path:
    path = tmp_path / "log.sqlite"
    with closing(sqlite3.connect(path)) as sql:
        sql.executescript((HERE / "log_of_schema_12.sql").read_text(encoding="utf-8"))
        assert sql.execute("PRAGMA user_version").fetchone() == (12,)
    return path


@pytest.fixture
def migrated(old_log: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(old_log, isolation_level=None)) as sql:
        migrate(sql)
        assert sql.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
        yield sql


def frames(sql: sqlite3.Connection) -> list[str]:
    return [
        frame.text
        for row, _ in queries.list_rows(sql, 0, -1)
        for frame in events.frames_after(sql, row.number, row.conversation_id, 0, 10_000)
    ]


def without_status(view: dict[str, Any]) -> dict[str, Any]:
    """The status was not read from the log then: the host added it."""
    return {name: value for name, value in view.items() if name != "status"}


def views(sql: sqlite3.Connection) -> dict[str, Any]:
    """All that is read of a log beside its events and its audit trail."""
    numbers = [row.number for row, _ in queries.list_rows(sql, 0, -1)]
    told: dict[str, Any] = {
        "conversations": [without_status(one) for one in json.loads(read_list(sql))],
        "messages": [[*events.read_messages(sql, number)] for number in numbers],
        "outputs": [
            {call: [one.model_dump() for one in shown] for call, shown in events.outputs_by_call(sql, number).items()}
            for number in numbers
        ],
        "unfinished": [
            [events.unfinished_messages(sql, number, run_id), events.unfinished_cards(sql, number, run_id)]
            for number, run_id in sql.execute("SELECT conversation, run_id FROM runs ORDER BY number").fetchall()
        ],
        "compaction": compactions.last_compaction(sql, 8),
        "pictures": images.read(sql, 2, [digest for (digest,) in sql.execute("SELECT digest FROM images").fetchall()]),
        "inbox": [
            [kept.content for kept in inbox.read_kept(sql, number, run_id)]
            for number, run_id in sql.execute("SELECT conversation, run_id FROM runs ORDER BY number").fetchall()
        ],
        "rules": [rule.model_dump() for rule in rules.all_rules(sql)],
        "usage": turns.read_report(sql, 9, datetime(2026, 11, 30, tzinfo=UTC)).model_dump(),
    }
    as_json: dict[str, Any] = json.loads(json.dumps(told))
    return as_json


def test_every_frame_is_read_byte_by_byte_as_it_was_sent(migrated: sqlite3.Connection) -> None:
    assert frames(migrated) == FRAMES


def test_a_client_that_resumes_within_what_was_folded_gets_the_rest_of_it(migrated: sqlite3.Connection) -> None:
    sent = [frame for frame in FRAMES if json.loads(frame)["conversation_id"].endswith("01")]
    for after in range(len(sent)):
        rest = events.frames_after(migrated, 1, f"conv_{1:032x}", after, 10_000)
        assert [frame.text for frame in rest] == sent[after:]


def test_every_view_is_what_it_was(migrated: sqlite3.Connection) -> None:
    before = json.loads((HERE / "views_of_schema_12.json").read_text(encoding="utf-8"))
    now = views(migrated)
    for name, value in before.items():
        assert now[name] == value, name
    for view in before["conversations"]:
        snapshot = read_snapshot(migrated, view["conversation_id"])
        assert without_status(json.loads(snapshot.text)) == view


def test_its_audit_trail_fits_and_its_export_is_the_same(
    old_log: Path, migrated: sqlite3.Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    assert {json.loads(line)["kind"] for line in AUDIT} == KINDS
    assert list(chain.export(migrated)) == AUDIT
    assert [entry.text for entry in chain.read_entries(migrated, 7)] == AUDIT[7:]
    assert chain.check(migrated) is None
    migrated.close()
    assert cli.main(["audit", "--check", "--log", str(old_log)]) == 0
    assert f"{len(AUDIT)} entries" in capsys.readouterr().out


@pytest.mark.parametrize("number", range(1, len(AUDIT) + 1))
def test_an_old_entry_that_was_changed_is_noticed(migrated: sqlite3.Connection, number: int) -> None:
    for (name,) in migrated.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        migrated.execute(f"DROP TRIGGER {name}")
    (stored,) = migrated.execute("SELECT entry FROM audit WHERE number = ?", (number,)).fetchone()
    changed = bytes([*stored[:-9], stored[-9] ^ 1, *stored[-8:]])
    migrated.execute("UPDATE audit SET entry = ? WHERE number = ?", (changed, number))
    fault = chain.check(migrated)
    assert fault is not None
    assert fault.number == number


async def test_it_goes_on_where_it_was_left(old_log: Path) -> None:
    """The waiting calls are decided, the one that was executing has an unknown outcome, and its inbox is heard."""
    executor = FunctionExecutor()

    async def executor_for(_: Conversation, __: RunSpec) -> FunctionExecutor:
        return executor

    with ScriptedModel([say("Done at last."), say("And the queued one."), say("So be it.")]) as model:
        runtime = await Runtime.open(old_log, OneModel(model))
        handles = {one.conversation_id: handle for _, one, handle in (await runtime.recover(executor_for)).continued}
        waiting = [call for call in await runtime.list_calls("awaiting_approval") if call.conversation_id == WAITING]
        for call in waiting:
            await runtime.route_decision(call.approval_id, Decision(approved=True, digest=call.digest))
        await handles[WAITING].wait()
        conversation = await runtime.conversation(EXECUTING)
        await conversation.answer_unknown("a", "continue")
        await handles[EXECUTING].wait()
        decided = (await (await runtime.conversation(WAITING)).view()).tool_calls
        said = (await conversation.view()).messages
        await runtime.aclose()
    assert [call.state for call in decided] == ["success"] * 3
    assert [ran.tool_call_id for ran in executor.ran] == ["b", "c"]
    assert "And look at b.csv too." in [message.content for message in said]
    with closing(sqlite3.connect(old_log)) as sql:
        now = frames(sql)
        assert [frame for frame in now if frame in set(FRAMES)] == FRAMES
        assert len(now) > len(FRAMES)
        assert [*chain.export(sql)][: len(AUDIT)] == AUDIT
        assert chain.check(sql) is None
        assert chain.read_head(sql).number > len(AUDIT)
