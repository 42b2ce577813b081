"""A log that is pulled away from a running server: removed, cut off, written over, replaced. Decisions stop, nothing
runs that is on no disk, and everybody is told what to do."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.doctor import fault_of
from agent_kernel.errors import LogUnavailable
from agent_kernel.log.audit_head import head_path, read_note
from agent_kernel.log.store import Log
from agent_kernel.testing import FakeOpenAI
from tests.core.log.audit.test_chain import approve_and_run, connect
from tests.faults.planned_model import PlannedModel
from tests.faults.server import Client, Server
from tests.waiting import look_until

pytestmark = [pytest.mark.slow, pytest.mark.kernel]
Harm = Callable[[Path], object]
AUDIT = (sys.executable, "-c", "import sys; from agent_kernel.cli import main; sys.exit(main(sys.argv[1:]))", "audit")


def wal(log: Path) -> Path:
    return log.with_name(f"{log.name}-wal")


def overwrite(file: Path) -> None:
    size = file.stat().st_size
    with file.open("r+b") as opened:
        opened.seek(4096)
        opened.write(b"\xaa" * (size - 4096))


HARMS: dict[str, Harm] = {
    "remove": Path.unlink,
    "empty": lambda log: os.truncate(log, 0),
    "overwrite wal": lambda log: overwrite(wal(log)),
    "put a copy in its place": lambda log: Path(shutil.copy(log, log.with_name("copy"))).replace(log),
}
"""What is done to a log. All but the first are part of `make soak`."""


def audit(log: Path) -> "subprocess.CompletedProcess[str]":
    command = [*AUDIT, "--check", "--log", str(log)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


async def asked(server: Server, after: str = "") -> str:
    async def look() -> str | None:
        calls = await server.api("GET", "approvals?state=awaiting_approval")
        return next((one["approval_id"] for one in calls if one["approval_id"] != after), None)

    approval: str = await look_until(look, "the approval")
    return approval


async def refuses_everything(server: Server, conversation: str, approval: str, client: Client) -> str:
    """What the answer to a decision says."""
    status, body = await server.decide(approval)
    assert status == 503, body
    said: str = body["message"]
    await client.send(type="approval_response", approval_id=approval, approved=True)
    assert (await client.until("error"))["message"] == said
    for path, fields in (
        (f"conversations/{conversation}/runs", {"content": "More."}),
        ("conversations", {}),
        (f"conversations/{conversation}/policy", {"mode": "allow"}),
    ):
        status, body = await server.ask("POST", f"agent-kernel/api/{path}", fields)
        assert (status, path) == (503, path), body
    assert (await server.api("GET", "status"))["version"]
    return said


@pytest.mark.parametrize(
    "harm",
    [pytest.param(harm, id=name, marks=() if name == "remove" else pytest.mark.soak) for name, harm in HARMS.items()],
)
async def test_nothing_is_decided_with_a_log_that_was_pulled_away(tmp_path: Path, harm: Harm) -> None:
    counter = tmp_path / "counter"
    plan = json.dumps({"steps": [1, 1], "tool": "run_python", "counter": str(counter)})
    with FakeOpenAI([PlannedModel()], repeat=True) as model:
        async with Server(tmp_path / "server", model.environment()) as server:
            conversation = await server.new_conversation(await server.start_kernel())
            await server.start_run(conversation, plan)
            first = await asked(server)
            assert (await server.decide(first))[0] == 200  # which is in the trail, and part of it in the file itself
            approval = await asked(server, after=first)
            before = counter.read_text()
            await look_until(lambda: has_head(server.log_path), "the trail's head")
            async with server.client(conversation) as client:
                await client.until("session")
                harm(server.log_path)
                assert "new log starts" in await refuses_everything(server, conversation, approval, client)
            assert counter.read_text() == before, "nothing ran"
            assert "Traceback" not in (server.directory / "server.log").read_text(errors="replace")
        # What it was told to do, somebody does.
        for file in server.log_path.parent.iterdir():
            file.unlink()
        async with Server(tmp_path / "server", model.environment()) as server:
            await server.new_conversation()
            assert "is empty" in audit(server.log_path).stdout


async def has_head(log: Path) -> bool:
    note = read_note(log)
    return note is not None and note.head.number > 0


def test_the_reports_of_a_log_that_was_replaced_while_no_server_ran(tmp_path: Path) -> None:
    """By an older copy, by none, by an empty file."""
    log = tmp_path / "log.sqlite"
    _run(_open_and_close(log))
    assert "is empty" in audit(log).stdout
    assert audit(log).returncode == 0
    shutil.copy(log, tmp_path / "older")
    sql = connect(log)
    sql.execute("BEGIN")
    sql.execute("INSERT INTO conversations (conversation_id, created_at) VALUES ('conv', '')")
    approve_and_run(sql, "c1")
    sql.execute("COMMIT")
    sql.close()
    _run(_open_and_close(log))
    assert "whole: 2 entries" in audit(log).stdout
    assert fault_of(log) is None

    shutil.copy(tmp_path / "older", log)
    told = audit(log)
    assert told.returncode == 1
    assert "lost: there were 2 entries up to" in told.stderr
    assert "has no entry" in told.stderr
    _run(_open_and_close(log))  # a server starts with it, and what was lost stays known
    assert "lost: there were 2 entries up to" in audit(log).stderr

    head_path(log).unlink()
    assert "is empty" in audit(log).stdout


def test_a_log_whose_pages_were_overwritten_is_called_damaged_and_what_to_do_is_said(tmp_path: Path) -> None:
    log = tmp_path / "log.sqlite"
    _run(_open_and_close(log))
    overwrite(log)
    for told in (audit(log), subprocess.run([*AUDIT, "--log", str(log)], capture_output=True, text=True, check=False)):
        assert told.returncode == 1
        assert "new log starts" in told.stderr
        assert "Traceback" not in told.stderr
    assert "malformed" in str(fault_of(log)) or "damaged" in str(fault_of(log))
    with pytest.raises(LogUnavailable, match="new log starts"):
        _run(_open_and_close(log))


async def _open_and_close(log: Path) -> Any:
    await (await Log.open(log)).aclose()


def _run(work: Any) -> None:
    asyncio.run(work)
