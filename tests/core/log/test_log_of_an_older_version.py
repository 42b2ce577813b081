"""A log that the first version wrote, as SQL: one finished run, and one whose call waits for its approval."""

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from agent_kernel.log import events, migrations
from agent_kernel.log.audit import chain
from agent_kernel.log.migrations import MIGRATIONS, migrate
from agent_kernel.protocol.commands import Decision
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.runtime import Runtime
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.testing import ScriptedModel, say
from tests.core.runtime.runtime_fixtures import FunctionExecutor, OneModel

HERE = Path(__file__).parent
FRAMES = (HERE / "frames_of_schema_1.jsonl").read_text(encoding="utf-8").splitlines()
"""What the version that wrote the log sent."""


@pytest.fixture
def old_log(tmp_path: Path) -> Path:
    path = tmp_path / "log.sqlite"
    with closing(sqlite3.connect(path)) as sql:
        sql.executescript((HERE / "log_of_schema_1.sql").read_text(encoding="utf-8"))
        assert sql.execute("PRAGMA user_version").fetchone() == (1,)
    return path


def conversation_id(sql: sqlite3.Connection) -> str:
    (found,) = sql.execute("SELECT conversation_id FROM conversations").fetchone()
    return str(found)


def frames(sql: sqlite3.Connection) -> list[str]:
    return [frame.text for frame in events.frames_after(sql, 1, conversation_id(sql), 0, 10_000)]


def test_it_is_read_as_it_was_written(old_log: Path) -> None:
    with closing(sqlite3.connect(old_log, isolation_level=None)) as sql:
        migrate(sql)
        assert sql.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
        assert frames(sql) == FRAMES
        assert chain.check(sql) is None
        events.compress_events(sql, 1)
        assert frames(sql) == FRAMES


async def test_its_waiting_call_is_approved_and_its_conversation_goes_on(old_log: Path) -> None:
    executor = FunctionExecutor()

    async def executor_for(_: Conversation, __: RunSpec) -> FunctionExecutor:
        return executor

    with ScriptedModel([say("Done at last.")]) as model:
        runtime = await Runtime.open(old_log, OneModel(model))
        [(_, conversation, handle)] = (await runtime.recover(executor_for)).continued
        [waiting] = await runtime.list_calls("awaiting_approval")
        await runtime.route_decision(waiting.approval_id, Decision(approved=True))
        result = await handle.wait()
        view = await conversation.view()
        await runtime.aclose()
    assert result.text == "Done at last."
    assert [call.state for call in view.tool_calls] == ["success", "success"]
    assert (view.runs[0].usage.cost, view.runs[0].usage.cached_tokens) == (None, 0), "nobody counted it then"
    assert [message.role for message in view.messages] == ["user", "assistant", "tool", "assistant"] * 2
    with closing(sqlite3.connect(old_log)) as sql:
        now = frames(sql)
        assert now[: len(FRAMES)] == FRAMES
        assert len(now) == view.last_seq
        assert chain.check(sql) is None
        assert {entry.number for entry in chain.read_entries(sql)} == set(range(1, 7))


def test_servers_that_open_it_at_the_same_moment_bring_it_up_to_date_once(old_log: Path) -> None:
    servers = 4
    together = threading.Barrier(servers)

    def open_it(_: int) -> tuple[int]:
        with closing(sqlite3.connect(old_log, isolation_level=None)) as sql:
            sql.execute("PRAGMA user_version").fetchone()
            together.wait()
            migrate(sql)
            found: tuple[int] = sql.execute("PRAGMA user_version").fetchone()
            return found

    with ThreadPoolExecutor(servers) as pool:
        assert list(pool.map(open_it, range(servers))) == [(len(MIGRATIONS),)] * servers
    with closing(sqlite3.connect(old_log)) as sql:
        assert frames(sql) == FRAMES


def test_a_migration_that_fails_leaves_it_as_it_was(old_log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def schema(sql: sqlite3.Connection) -> list[tuple[str]]:
        return sql.execute("SELECT sql FROM sqlite_schema ORDER BY name").fetchall()

    monkeypatch.setattr(migrations, "MIGRATIONS", (*MIGRATIONS, "CREATE TABLE audit (number);\n"))
    with closing(sqlite3.connect(old_log, isolation_level=None)) as sql:
        before = schema(sql)
        with pytest.raises(sqlite3.OperationalError, match="already exists"):
            migrate(sql)
        assert sql.execute("PRAGMA user_version").fetchone() == (1,)
        assert schema(sql) == before
