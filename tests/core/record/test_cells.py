"""A run's code as cells: what ran, in order, and what can't be repeated as a comment."""

from typing import Any

import pytest

from agent_kernel.protocol.views import MessageView, ToolCallView
from agent_kernel.record.as_cells import Cell, all_cells, as_one, code_cells
from tests.core.record.record_examples import a_call, a_run, says


def asks(text: str) -> MessageView:
    return MessageView(message_id="m", run_id="run_1", role="user", content=text)


def code_of(*calls: ToolCallView) -> list[str]:
    return [cell.source for cell in code_cells([says("", *calls)], calls)]


def python(number: int, code: str, **changes: Any) -> ToolCallView:
    return a_call(number, arguments={"code": code}, **changes)


def test_the_code_that_ran_is_there_in_the_order_in_which_it_ran() -> None:
    first = python(1, "b = a", started_at="2026-11-20T14:02:45.000Z")
    second = python(2, "a = 1", started_at="2026-11-20T14:02:41.000Z")
    edited = python(3, "c = 3  # as a person has changed it", edited=True)
    messages = [says("", first, second), says("", edited)]
    assert [cell.source for cell in code_cells(messages, [first, second, edited])] == [
        "a = 1",
        "b = a",
        "c = 3  # as a person has changed it",
    ]


@pytest.mark.parametrize("state", ["denied", "error"])
def test_calls_that_did_not_succeed_are_left_out_and_are_comments_in_the_whole_run(state: Any) -> None:
    call = python(1, "drop()\nall()", state=state, reason="Not now.")
    assert code_of(call) == []
    *_, cell = all_cells(a_run(), [says("", call)], [call])
    assert cell.comment
    assert cell.source.startswith("# Left out: ")
    assert cell.source.endswith("Not now.\n# drop()\n# all()")


def test_what_only_reads_is_left_out_and_what_acts_elsewhere_is_a_comment() -> None:
    look = a_call(1, "read_file", {"path": "a.csv"}, read_only=True)
    own = a_call(2, "drop_rows", {"table": "orders", "rows": 2})
    question = a_call(3, "ask_user", {"question": "Which?"}, result="The left one.")
    assert code_of(look, own, question) == [
        "# The agent called a tool of the notebook's own:\n# drop_rows(table='orders', rows=2)"
    ]
    (_, whole) = all_cells(a_run(), [says("", look, own, question)], [look, own, question])
    assert "# The agent looked: read_file(path='a.csv')" in whole.source
    assert "# The agent asked: ask_user(question='Which?') -> The left one." in whole.source


def test_shell_commands_are_bash_cells_that_fail_only_where_they_did_not() -> None:
    fine = a_call(1, "run_shell", {"command": "ls | wc -l"}, result="3\nExit code: 0")
    failed = a_call(2, "run_shell", {"command": "grep -q x y"}, result="Exit code: 1")
    assert code_of(fine, failed) == ["%%bash\nls | wc -l", "%%bash --no-raise-error\ngrep -q x y"]


@pytest.mark.parametrize("content", ["a,b\n1,2\n", 'say """hi"""\nand \\n\n', "\r\n\u202ehidden\r\n"])
def test_a_written_file_is_written_again(content: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (source,) = code_of(a_call(1, "write_file", {"path": "deep/er/out.txt", "content": content}))
    exec(source, {})
    assert (tmp_path / "deep/er/out.txt").read_bytes().decode() == content


def test_several_cells_make_one_that_can_be_divided_again() -> None:
    shell = a_call(2, "run_shell", {"command": "echo '''x'''\nls"}, result="Exit code: 0")
    one = as_one(code_cells([says("", python(1, "x = 1"), shell)], [python(1, "x = 1"), shell]))
    assert one.startswith("# %%\nx = 1\n\n# %%\nget_ipython().run_cell_magic('bash', '', ")
    compile(one, "cell", "exec")
    assert as_one([Cell("code", "%%bash\nls")]) == "%%bash\nls"
