"""A log that schema 13 wrote, the last one whose runs were stored whole and whose messages named them: a finished run,
one whose call was denied, and one whose call waits."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.log import events, queries
from agent_kernel.log.audit import chain
from agent_kernel.log.migrations import MIGRATIONS, migrate
from agent_kernel.protocol.commands import Decision
from agent_kernel.runtime.clients.snapshot import read_list
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.runtime import Runtime
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.testing import ScriptedModel, say
from tests.core.runtime.runtime_fixtures import FunctionExecutor, OneModel

HERE = Path(__file__).parent
READ = json.loads((HERE / "read_of_schema_13.json").read_text(encoding="utf-8"))
"""What the version that wrote the log read from it."""


@pytest.fixture
def old_log(tmp_path: Path) -> Path:
    path = tmp_path / "log.sqlite"
    with closing(sqlite3.connect(path)) as sql:
        sql.executescript((HERE / "log_of_schema_13.sql").read_text(encoding="utf-8"))
        assert sql.execute("PRAGMA user_version").fetchone() == (13,)
    return path


def read(sql: sqlite3.Connection) -> dict[str, Any]:
    [(row, _)] = queries.list_rows(sql, 0, -1)
    return {
        "frames": [frame.text for frame in events.frames_after(sql, row.number, row.conversation_id, 0, 10_000)],
        "audit": [*chain.export(sql)],
        "conversations": json.loads(read_list(sql)),
    }


def test_it_is_read_as_it_was_written(old_log: Path) -> None:
    with closing(sqlite3.connect(old_log, isolation_level=None)) as sql:
        migrate(sql)
        assert sql.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
        assert read(sql) == READ
        assert chain.check(sql) is None


async def test_its_waiting_call_is_approved_and_a_new_run_follows(old_log: Path) -> None:
    executor = FunctionExecutor()

    async def executor_for(_: Conversation, __: RunSpec) -> FunctionExecutor:
        return executor

    with ScriptedModel([say("Done at last."), say("And more.")]) as model:
        runtime = await Runtime.open(old_log, OneModel(model))
        [(spec, conversation, handle)] = (await runtime.recover(executor_for)).continued
        assert (spec.prompt, spec.system) == ("And now?", "Be brief.")
        [waiting] = await runtime.list_calls("awaiting_approval")
        await conversation.route_decision(waiting.approval_id, Decision(approved=True, digest=waiting.digest))
        await handle.wait()
        following = await conversation.start_run(RunSpec(run_id="run_new", prompt="More."), executor)
        await following.wait()
        view = await conversation.view()
        await runtime.aclose()
    assert [ran.tool_call_id for ran in executor.ran] == ["c"]
    assert [run.status for run in view.runs] == ["complete"] * 4
    before = [message["message_id"] for message in READ["conversations"][0]["messages"]]
    assert [message.message_id for message in view.messages][: len(before)] == before
    assert {message.run_id for message in view.messages} == {run.run_id for run in view.runs}
    with closing(sqlite3.connect(old_log)) as sql:
        now = read(sql)
        assert now["frames"][: len(READ["frames"])] == READ["frames"]
        [*rest] = now["audit"][len(READ["audit"]) :]
        assert now["audit"] == READ["audit"] + rest
        assert [json.loads(line)["kind"] for line in rest] == ["decision", "outcome"]
        assert chain.check(sql) is None
