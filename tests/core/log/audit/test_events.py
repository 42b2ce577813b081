"""Who listens to the audit trail hears what is committed; what else than a call is in it."""

import asyncio
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.log import runs, tool_calls
from agent_kernel.log.audit import AuditedEntry
from agent_kernel.log.store import Log
from agent_kernel.protocol.commands import Decision
from agent_kernel.testing import call, say
from tests.core.log.audit.test_chain import YES, approve_and_run, propose
from tests.core.runtime.runtime_fixtures import Stages
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
    handle = await stage.start()
    [first] = await stage.requests()
    await stage.conversation.route_decision(first.approval_id, Decision(approved=True), decided_by="ana")
    [_, second] = await stage.requests(2)
    await stage.conversation.undo_call("a", decided_by="eve")
    always = Decision(approved=True, scope="conversation")
    await stage.conversation.route_decision(second.approval_id, always, decided_by="ana")
    await handle.wait()
    told = await stage.audit()
    [undone] = [one for one in told if one["kind"] == "undo"]
    assert (undone["approval_id"], undone["decided_by"]) == (first.approval_id, "eve")
    [saved] = [one for one in told if one["kind"] == "rule"]
    assert (saved["action"], saved["rule"], saved["decided_by"]) == ("saved", "allow run_python", "ana")
    await stage.conversation.remove_rule(saved["rule_id"], decided_by="eve")
    *_, removed = await stage.audit()
    assert (removed["action"], removed["rule_id"], removed["decided_by"]) == ("removed", saved["rule_id"], "eve")
