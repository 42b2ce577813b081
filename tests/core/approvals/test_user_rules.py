"""Rules for all notebooks, where the log ends with its kernel: they last, in a file that is its owner's alone."""

import sqlite3
import stat
from pathlib import Path

import pytest

from agent_kernel import cli
from agent_kernel.approvals.user_rules import MOST_RULES, UserRule, UserRules
from agent_kernel.errors import ConfigurationError, InvalidArguments
from agent_kernel.notebook.kernel import environment
from agent_kernel.protocol.commands import Decision
from agent_kernel.testing import call, say
from tests.core.runtime.runtime_fixtures import Stages

ALWAYS = Decision(approved=True, scope="user")
RULE = UserRule("rule_1", "allow run_python", "2026-11-22T08:00:00Z", "ana")


async def test_a_rule_that_one_process_saves_is_in_force_in_the_next_until_it_is_removed(
    stages: Stages, tmp_path: Path
) -> None:
    store = UserRules(tmp_path / "deep" / "rules.sqlite")
    one = await stages([call("run_python", code="1"), say("done")], user_rules=store)
    handle = await one.start()
    await one.decide(ALWAYS, decided_by="ana")
    await handle.wait()
    [kept] = store.read()
    assert (kept.text, kept.made_by) == ("allow run_python", "ana")
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    turns = [call("run_python", code=name, call_id=name) for name in "ab"]
    other = await stages([*turns, say("done")], user_rules=UserRules(store.path))
    other.executor.act = lambda ran, _: store.remove(kept.rule_id) or "ok"
    handle = await other.start()
    [request] = await other.requests()
    assert request.tool_call_id == "b"
    await other.conversation.route_decision(request.approval_id, Decision(approved=False))
    result = await handle.wait()
    assert [one.by for one in result.tool_calls] == ["policy", "user"]


async def test_a_rule_that_can_not_be_kept_decides_nothing(stages: Stages, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    stage = await stages([call("run_python", code="1"), say("done")], user_rules=UserRules(tmp_path / "folder"))
    handle = await stage.start()
    [request] = await stage.requests()
    with pytest.raises(InvalidArguments, match=r"can't be used.*Nothing was decided"):
        await stage.conversation.route_decision(request.approval_id, ALWAYS)
    assert stage.executor.ran == []
    await stage.conversation.route_decision(request.approval_id, Decision(approved=True))
    result = await handle.wait()
    assert result.run.policy.rules == []


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


def test_a_file_that_others_may_write_a_link_and_what_is_no_database_are_not_used(tmp_path: Path) -> None:
    store = UserRules(tmp_path / "rules.sqlite")
    store.add(RULE)
    store.path.chmod(0o666)
    with pytest.raises(ConfigurationError, match="its owner alone may write"):
        store.read()
    link = UserRules(tmp_path / "link.sqlite")
    link.path.symlink_to(store.path)
    with pytest.raises(ConfigurationError, match="can't be used"):
        link.read()
    (tmp_path / "text.sqlite").write_text("allow run_python" * 100)
    with pytest.raises(ConfigurationError, match="can't be used"):
        UserRules(tmp_path / "text.sqlite").read()


def test_there_are_only_so_many_rules(tmp_path: Path) -> None:
    store = UserRules(tmp_path / "rules.sqlite")
    store.add(RULE)
    with sqlite3.connect(store.path) as sql:
        rows = [(f"rule_{number + 2}", "allow run_python", "2026", None) for number in range(MOST_RULES - 1)]
        sql.executemany("INSERT INTO rules VALUES (?, ?, ?, ?)", rows)
    with pytest.raises(ConfigurationError, match="remove some of them first"):
        store.add(UserRule("rule_0", "allow run_python", "2026", None))


def test_the_command_line_lists_and_removes_them_where_there_is_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    UserRules(environment.user_rules_path()).add(RULE)
    assert cli.main(["rules"]) == 0
    listed = "rule_1  allow run_python  (all notebooks, saved by ana on 2026-11-22, without the server extension)\n"
    assert capsys.readouterr().out == listed
    assert cli.main(["rules", "remove", "rule_1"]) == 0
    assert cli.main(["rules"]) == 0
    assert capsys.readouterr().out == "Removed: allow run_python\nNo rule is saved.\n"
