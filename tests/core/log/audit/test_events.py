"""Who listens to the audit trail hears what is committed; what else than a call is in it, and who stopped what."""

import asyncio
import json
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_kernel import cli
from agent_kernel.log import runs, tool_calls
from agent_kernel.log.audit import AuditedEntry
from agent_kernel.log.store import Log
from agent_kernel.protocol.commands import CancelCommand, Decision, MessageCommand
from agent_kernel.protocol.events import ToolOutputEvent
from agent_kernel.runtime.clients.dispatch import handle_command
from agent_kernel.testing import call, calls, say
from tests.core.log.audit.test_chain import YES, approve_and_run, propose
from tests.core.runtime.runtime_fixtures import InterruptibleExecutor, Stage, Stages
from tests.core.runtime.tool_calls.test_queue_position_and_undo import keeps


async def test_a_listener_hears_each_entry_once_and_only_what_is_committed(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    log = await Log.open(path)
    await log.write(lambda t: runs.add_conversation(t.sql, "conv", None, None, None))
    await log.write(lambda t: approve_and_run(t.sql, "before", audited=t.audited))
    audited: list[int] = []
    all_heard = asyncio.Event()

    def listen(entries: Sequence[AuditedEntry]) -> None:
        audited.extend(entry.number for entry, _ in entries)
        if len(audited) >= 3:
            all_heard.set()

    log.listen_to_audit(listen)

    def broken(t: Any) -> None:
        approve_and_run(t.sql, "never", audited=t.audited)
        raise ValueError("no")

    await log.write(lambda t: approve_and_run(t.sql, "c1", audited=t.audited))
    with pytest.raises(ValueError, match="no"):
        await log.write(broken)
    other = await Log.open(path)  # another server on the same log
    await other.write(lambda t: approve_and_run(t.sql, "theirs", audited=t.audited))
    await other.aclose()
    await log.write(lambda t: propose(t.sql, "c2"))
    await log.write(lambda t: tool_calls.commit_decision(t.sql, "apr_c2", YES, t.audited, denial=""))
    async with asyncio.timeout(10):
        await all_heard.wait()  # they come a moment after their commits
    await log.aclose()
    assert audited == [3, 4, 7]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_rules_and_undone_calls_are_in_the_trail_with_who_did_it(stages: Stages) -> None:
    turns = [call("run_python", code="1", call_id="a"), call("run_python", code="2", call_id="b"), say("Done.")]
    stage = await stages(turns)
    keeps(stage)
    handle, [first] = await stage.asking()
    await stage.approve(first, decided_by="ana")
    await stage.requests(2)
    await stage.conversation.undo_call("a", decided_by="eve")
    await stage.decide(Decision(approved=True, scope="conversation"), 2, decided_by="ana")
    await handle.wait()
    told = await stage.audit()
    [undone] = [one for one in told if one["kind"] == "undo"]
    assert (undone["approval_id"], undone["decided_by"]) == (first.approval_id, "eve")
    [saved] = [one for one in told if one["kind"] == "rule"]
    assert (saved["action"], saved["rule"], saved["decided_by"]) == ("saved", "allow run_python", "ana")
    await stage.conversation.remove_rule(saved["rule_id"], decided_by="eve")
    *_, removed = await stage.audit()
    assert (removed["action"], removed["rule_id"], removed["decided_by"]) == ("removed", saved["rule_id"], "eve")


TWO_CALLS = calls(call("run_python", code="1", call_id="a"), call("run_python", code="2", call_id="b"))


async def noted(stage: Stage, kind: str) -> list[dict[str, Any]]:
    return [entry for entry in await stage.audit() if entry["kind"] == kind]


async def test_stop_is_in_the_trail_before_the_ends_that_it_causes(stages: Stages) -> None:
    stage = await stages([TWO_CALLS], executor=InterruptibleExecutor())
    handle, _ = await stage.asking(2)
    await stage.approve(1, decided_by="ana")
    await stage.until(lambda: stage.of(ToolOutputEvent))
    await handle_command(CancelCommand(type="cancel", run_id=handle.run_id), stage.conversation, "eve")
    await handle.wait()
    [stop] = await noted(stage, "stop")
    assert (stop["run_id"], stop["conversation_id"]) == (handle.run_id, stage.conversation.conversation_id)
    assert (stop["by"], stop["decided_by"], stop["whole_run"]) == ("user", "eve", True)
    assert sorted(stop["tool_call_ids"]) == ["a", "b"]
    told = await stage.audit()
    ends = [one for one in told if one["kind"] == "outcome"]
    assert [one["state"] for one in ends] == ["cancelled", "cancelled"]
    assert all(told.index(stop) < told.index(end) and stop["at"] <= end["at"] for end in ends)


async def test_a_message_in_place_of_a_decision_names_who_sent_it_and_the_calls_that_it_replaced(
    stages: Stages, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.sqlite"
    one = await stages([TWO_CALLS, say("Something else, then.")], path=path)
    handle, _ = await one.asking(2)
    await handle_command(MessageCommand(type="message", content="Something else."), one.conversation, "eve")
    assert (await handle.wait()).text == "Something else, then."
    [sent] = await noted(one, "message")
    told = await one.audit()
    await one.close()
    assert (sent["conversation_id"], sent["run_id"]) == (one.conversation.conversation_id, handle.run_id)
    assert (sent["by"], sent["decided_by"], sorted(sent["tool_call_ids"])) == ("user", "eve", ["a", "b"])
    ends = [entry for entry in told if entry["kind"] == "outcome"]
    assert [entry["state"] for entry in ends] == ["superseded", "superseded"]
    assert all(told.index(sent) < told.index(end) for end in ends)
    assert "Something else" not in json.dumps(sent)
    assert cli.main(["audit", "--log", str(path)]) == 0
    assert sent in [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert cli.main(["audit", "--log", str(path), "--check"]) == 0
