"""What a card says that a call will do, before anyone approves it."""

from typing import Any

import pytest

from agent_kernel.tools.review.preview import diff, preview, warnings


def shown(name: str, **arguments: Any) -> dict[str, str]:
    return {warning.title: warning.detail for warning in warnings(name, arguments)}


def python(code: str) -> dict[str, str]:
    return shown("run_python", code=code)


def shell(command: str) -> dict[str, str]:
    return shown("run_shell", command=command)


@pytest.mark.parametrize(
    ("code", "title", "detail"),
    [
        (
            'path = Path("exports/orders_clean.parquet")\norders.to_parquet(path, index=False)',
            "Writes files:",
            "exports/orders_clean.parquet",
        ),
        ('import shutil\nshutil.copy("a", "b")', "Writes files:", "b"),
        ("from shutil import rmtree as gone\ngone(folder)", "Deletes files:", "folder"),
        ("orders = orders.dropna()", "Deletes rows:", "orders"),
        ('del orders["a"]', "Deletes columns:", 'orders["a"]'),
        ('import subprocess as sp\nsp.run(["rm", "-r", "data"])', "Deletes files:", "data"),
        ("%%bash\nrm -r data", "Deletes files:", "data"),
        ("%pip install polars\nimport polars", "Installs packages:", "pip install polars"),
        ('con.execute("DELETE FROM orders")', "Changes a database:", "DELETE FROM orders"),
        ("exec(code)", "Runs code it builds:", "code"),
        ("this is broken python", "Not checked:", "the code can't be read as Python"),
    ],
)
def test_code_that_has_effects_is_named(code: str, title: str, detail: str) -> None:
    assert python(code).get(title) == detail


@pytest.mark.parametrize(
    ("command", "title", "detail"),
    [
        ("rm -rf data out 2>/dev/null", "Deletes files:", "data out"),
        ("echo a > out.txt", "Writes files:", "out.txt"),
        ("FOO=1 /usr/bin/curl -O http://x", "Uses the network:", "curl -O http://x"),
        ("curl -s http://x | sh", "Runs code it builds:", "sh"),
        ("sudo rm /etc/x", "Runs as administrator:", "sudo rm /etc/x"),
        ("echo 'a", "Not checked:", "part of the command can't be read"),
        ("bash -c 'rm x'", "Runs code it builds:", "bash -c rm x"),
        ("find . -name x -exec rm {} +", "Deletes files:", "{}"),
        ("git -C x checkout -- f", "Discards changes:", "git -C x checkout -- f"),
        ("git push origin +a", "Overwrites history:", "git push origin +a"),
        ("echo $OPENAI_API_KEY", "Reads secrets:", "echo $OPENAI_API_KEY"),
        ("python -c 'x'", "Runs code it builds:", "python -c x"),
    ],
)
def test_commands_that_have_effects_are_named(command: str, title: str, detail: str) -> None:
    assert shell(command).get(title) == detail


@pytest.mark.parametrize(
    "command",
    ["grep rm x.txt 2>/dev/null", "python x.py", "git checkout -b x", "cat <<EOF\nrm x\nEOF", "echo 'sudo rm -rf /'"],
)
def test_commands_without_effects_have_no_warnings(command: str) -> None:
    assert shell(command) == {}


def test_file_tools_name_the_file_and_what_is_hidden_in_it() -> None:
    written = shown("write_file", path="a.md", content="x\u200by")
    assert written == {"Hidden characters:": "U+200B", "Writes files:": "a.md"}
    assert shown("edit_file", path="a.md", old_text="", new_text="") == {"Writes files:": "a.md"}
    assert shown("read_file", path="a.md") == {}
    assert shown("my_tool", where={"deep": ["\u2066"]}) == {"Hidden characters:": "U+2066"}


def test_many_effects_of_one_kind_are_one_warning() -> None:
    code = "\n".join(f'open("f{number}", "w")' for number in range(20))
    assert python(code) == {"Writes files:": "f0, f1, f2, f3, f4 and 15 more"}


CHANGE = "--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n a\n-b\n+c"


@pytest.mark.parametrize(
    ("name", "arguments", "seen"),
    [
        ("run_python", '{"code": "1 + 1"}', ("code", "python", "1 + 1")),
        ("run_shell", {"command": "ls"}, ("code", "shell", "ls")),
        ("edit_file", {"path": "a.py", "old_text": "a\nb", "new_text": "a\nc"}, ("diff", "piece", CHANGE)),
        ("write_file", {"path": "a.md", "content": "# x"}, ("code", "markdown", "# x")),
        ("read_file", {"path": "a"}, None),
        ("run_python", "not json", None),
    ],
)
def test_a_card_shows_code_commands_and_diffs_instead_of_json(name: str, arguments: Any, seen: Any) -> None:
    made = preview(name, arguments)
    assert (made and (made.kind, made.language, made.text)) == seen


def test_a_diff_shows_a_missing_line_end() -> None:
    assert diff("a\n", "a", "f").text == "--- f\n+++ f\n@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file"
    assert diff("", "a", "f").text.endswith("@@ -0,0 +1 @@\n+a")
