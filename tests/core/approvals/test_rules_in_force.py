"""Every rule in force is shown, whoever made it; a saved one lasts until it is removed from wherever it is listed."""

import asyncio
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest

from agent_kernel import cli
from agent_kernel.approvals.user_rules import UserRule, UserRules
from agent_kernel.errors import ConfigurationError, InvalidArguments, UnknownRule
from agent_kernel.protocol.calls import ApprovedCall
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.events import RunEvent
from agent_kernel.testing import call, say
from agent_kernel.tools.declaration import ToolDeclaration
from tests.core.runtime.runtime_fixtures import NO, Stages

ALWAYS = Decision(approved=True, scope="user")


async def test_a_rule_that_is_not_in_force_and_tools_that_run_unasked_by_themselves_are_named(stages: Stages) -> None:
    plot = ToolDeclaration("plot", "Plot.", {"type": "object", "properties": {}}, approval="allow")
    stage = await stages([say("done")], policy_cap="edit")
    result = await stage.run(rules=("allow run_python", "deny run_shell"), tools=(plot,))
    assert [rule.text for rule in result.run.policy.rules] == ["deny run_shell"]
    assert result.run.policy.notes == [
        "Not in force: allow run_python. This site allows edit at most, so code may not allow calls.",
        "Run unasked where their own declaration says so: plot.",
    ]


async def test_a_saved_rule_says_who_saved_it_and_is_listed_for_the_whole_host(stages: Stages) -> None:
    stage = await stages([call("run_python", code="1"), say("done")], site_rules=("deny run_shell",))
    handle = await stage.start()
    await stage.decide(ALWAYS, decided_by="ana")
    _, saved = (await handle.wait()).run.policy.rules
    assert (saved.origin, saved.scope, saved.made_by) == ("saved", "user", "ana")
    listed = [(rule.origin, rule.text) for rule in await stage.runtime.list_rules()]
    assert listed == [("site", "deny run_shell"), ("saved", "allow run_python")]
    await stage.runtime.remove_rule(saved.rule_id, decided_by="eve")
    assert [rule.origin for rule in await stage.runtime.list_rules()] == ["site"]
    with pytest.raises(UnknownRule):
        await stage.runtime.remove_rule(saved.rule_id)
    [_, removed] = [entry for entry in await stage.audit() if entry["kind"] == "rule"]
    assert (removed["action"], removed["decided_by"], "conversation_id" in removed) == ("removed", "eve", False)


async def test_a_rule_that_another_process_removes_leaves_the_header_and_the_next_call_asks(
    stages: Stages, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.sqlite"
    turns = [call("run_python", code=name, call_id=name) for name in "ab"]
    stage = await stages([*turns, say("done")], path=log)

    async def removed(ran: ApprovedCall, _: Any) -> str:
        if ran.tool_call_id == "a":
            await stage.until(lambda: stage.of(RunEvent)[-1].run.policy.rules)
            [rule] = (await stage.conversation.view()).runs[0].policy.rules
            remove = ["rules", "remove", rule.rule_id[:12], "--log", str(log)]
            assert await asyncio.to_thread(cli.main, remove) == 0
            assert "Removed: allow run_python" in capsys.readouterr().out
        return "ok"

    stage.executor.act = removed
    handle = await stage.start()
    await stage.decide(ALWAYS)
    await stage.requests(2)
    assert stage.of(RunEvent)[-1].run.policy.rules == []
    await stage.approve(2)
    assert [c.by for c in (await handle.wait()).tool_calls] == ["user", "user"]


RULE = UserRule("rule_1", "allow run_python", "2026-11-22T08:00:00Z", "ana")


async def test_a_rule_that_one_process_saves_is_in_force_in_the_next_until_it_is_removed(
    stages: Stages, tmp_path: Path
) -> None:
    store = UserRules(tmp_path / "deep" / "rules.sqlite")
    one = await stages([call("run_python", code="1"), say("done")], user_rules=store)
    await one.run("Go", ALWAYS)
    [kept] = store.read()
    assert (kept.text, stat.S_IMODE(store.path.stat().st_mode)) == ("allow run_python", 0o600)
    turns = [call("run_python", code=name, call_id=name) for name in "ab"]
    other = await stages([*turns, say("done")], user_rules=UserRules(store.path))
    other.executor.act = lambda ran, _: store.remove(kept.rule_id) or "ok"
    result = await other.run("Go", NO)
    assert [(one.tool_call_id, one.by) for one in result.tool_calls] == [("a", "policy"), ("b", "user")]


async def test_a_rule_that_can_not_be_kept_decides_nothing(stages: Stages, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    stage = await stages([call("run_python", code="1"), say("done")], user_rules=UserRules(tmp_path / "folder"))
    handle, _ = await stage.asking()
    with pytest.raises(InvalidArguments, match=r"can't be used.*Nothing was decided"):
        await stage.decide(ALWAYS)
    assert stage.executor.ran == []
    await stage.approve()
    assert (await handle.wait()).run.policy.rules == []


def test_rows_that_are_no_allowing_rule_allow_nothing(tmp_path: Path) -> None:
    store = UserRules(tmp_path / "rules.sqlite")
    store.add(RULE)
    with sqlite3.connect(store.path) as sql:
        for number, text in enumerate(("allow", "", "deny run_shell", b"allow run_shell", None)):
            sql.execute("INSERT INTO rules VALUES (?, ?, '2026', NULL)", (f"rule_x{number}", text))
    assert store.read() == [RULE]
    assert store.remove("rule_1")
    assert not store.remove("rule_1")
    assert store.read() == []


@pytest.mark.parametrize("odd", ["writable by others", "a link", "no database"])
def test_a_file_that_may_be_somebody_elses_is_not_used(tmp_path: Path, odd: str) -> None:
    store = UserRules(tmp_path / "rules.sqlite")
    store.add(RULE)
    if odd == "writable by others":
        store.path.chmod(0o666)
    elif odd == "a link":
        store.path.rename(tmp_path / "other.sqlite")
        store.path.symlink_to("other.sqlite")
    else:
        store.path.write_text("allow run_python" * 100)
    with pytest.raises(ConfigurationError, match="chmod 600 /" if odd[0] == "w" else "can't be used"):
        store.read()
