"""What the model and the user see of files: reading, searching, editing and writing in the notebook's folder."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.errors import ToolFailed
from agent_kernel.tools.builtin import search_process
from agent_kernel.tools.builtin.cells import read_notebook
from agent_kernel.tools.builtin.changes import read_file
from agent_kernel.tools.builtin.search_process import list_files, search_files
from tests.file_tools import edit_file, write_file

TOOLS: dict[str, Callable[..., str]] = {
    "read_file": read_file,
    "edit_file": edit_file,
    "write_file": write_file,
    "read_notebook": read_notebook,
    "list_files": list_files,
    "search_files": search_files,
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "data" / "deep").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    (tmp_path / "data" / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "data" / "deep" / "b.csv").write_text("needle\n")
    (tmp_path / "notes.txt").write_text("one\ntwo\nthree\n")
    (tmp_path / ".env").write_text("KEY=needle\n")
    return tmp_path


def run(root: Path, name: str, **arguments: Any) -> str:
    return TOOLS[name](root, **arguments)


@pytest.mark.parametrize(
    ("tool", "arguments", "shown"),
    [
        ("read_file", {"path": "notes.txt"}, "notes.txt: lines 1 to 3 of 3\none\ntwo\nthree"),
        (
            "read_file",
            {"path": "notes.txt", "offset": 2, "limit": 1},
            "notes.txt: lines 2 to 2 of 3. Read on with offset=3\ntwo",
        ),
        ("list_files", {}, "data/\nempty/\nnotes.txt  (14 B)"),
        ("list_files", {"pattern": "*.csv"}, "data/a.csv  (8 B)\ndata/deep/b.csv  (7 B)"),
        ("list_files", {"pattern": "data/*.csv"}, "data/a.csv  (8 B)"),
        (
            "search_files",
            {"query": "^T", "regex": True, "ignore_case": True},
            "notes.txt:2: two\nnotes.txt:3: three",
        ),
        ("search_files", {"query": "t.o", "path": "notes.txt"}, "No match for 't.o' in notes.txt."),
    ],
)
def test_files_are_read_in_parts_listed_without_hidden_ones_and_searched(
    root: Path, tool: str, arguments: dict[str, Any], shown: str
) -> None:
    assert run(root, tool, **arguments) == shown


NEAREST = {"old_text": "\ttotal = compute(2)\n\treturn total", "new_text": "x"}


@pytest.mark.parametrize(
    ("tool", "arguments", "reason"),
    [
        ("read_file", {"path": "f.bin"}, "binary"),
        ("read_file", {"path": "data"}, "is a folder"),
        ("read_file", {"path": "none.txt"}, "no file"),
        ("read_file", {"path": "notes.txt", "offset": 9}, "past its end"),
        ("search_files", {"query": "(", "regex": True}, "not a regular expression"),
        ("edit_file", {"path": "f.py", **NEAREST}, r"lines 2 to 3:\n    total = compute\(1\)\n    return total"),
        ("edit_file", {"path": "f.py", "old_text": "total", "new_text": ""}, r"occurs 2 times .*lines 2, 3"),
        ("write_file", {"path": "data", "content": ""}, "not a regular file"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(
    root: Path, tool: str, arguments: dict[str, Any], reason: str
) -> None:
    (root / "f.bin").write_bytes(b"\x89PNG\0\0")
    (root / "f.py").write_text("def f():\n    total = compute(1)\n    return total\n")
    with pytest.raises(ToolFailed, match=reason):
        run(root, tool, **arguments)


def test_a_search_finds_lines_and_skips_hidden_binary_and_linked_files(root: Path) -> None:
    (root / "f.bin").write_bytes(b"\0needle")
    (root / "link.txt").symlink_to(root / ".env")
    (root / "long.txt").write_text("a" * 10_000 + "needle" + "b" * 10_000)
    found = run(root, "search_files", query="needle").splitlines()
    assert found[0].startswith("long.txt:1: ...a")
    assert "needle" in found[0]
    assert len(found[0]) < 400
    assert found[1] == "data/deep/b.csv:1: needle"
    assert found[2].startswith("(1 binary")
    assert len(found) == 3


def test_an_edit_replaces_exact_text_that_occurs_once_or_everywhere(root: Path) -> None:
    edit: dict[str, Any] = {"path": "notes.txt", "old_text": "two\n", "new_text": "2\n2b\n"}
    assert run(root, "edit_file", **edit) == "Edited notes.txt: +2 -1 lines."
    assert (root / "notes.txt").read_text() == "one\n2\n2b\nthree\n"
    run(root, "edit_file", path="notes.txt", old_text="2", new_text="3", replace_all=True)
    assert (root / "notes.txt").read_text() == "one\n3\n3b\nthree\n"


def test_an_edit_keeps_line_ends_encoding_and_permissions(root: Path) -> None:
    file = root / "f.txt"
    file.write_bytes("é one\r\ntwo\r\n".encode("latin-1"))
    file.chmod(0o751)
    run(root, "edit_file", path="f.txt", old_text="one\ntwo", new_text="1\n2")
    assert file.read_bytes() == "é 1\r\n2\r\n".encode("latin-1")
    assert stat.S_IMODE(file.stat().st_mode) == 0o751
    with pytest.raises(ToolFailed, match=r"no character U\+20AC"):
        run(root, "edit_file", path="f.txt", old_text="1", new_text="€")


def test_a_file_is_created_with_its_folders_and_replaced_in_place(root: Path) -> None:
    assert run(root, "write_file", path="out/r/w.md", content="a\nb\n") == "Created out/r/w.md: 2 lines."
    target = root / "out" / "r" / "w.md"
    link = root / "link.md"
    link.symlink_to(target)
    assert run(root, "write_file", path="link.md", content="a\nc\nd\n") == "Replaced link.md: +2 -1 lines."
    assert link.is_symlink()
    assert target.read_text() == "a\nc\nd\n"
    assert [p.name for p in target.parent.iterdir()] == ["w.md"]
    umask = os.umask(0o022)
    os.umask(umask)
    assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~umask


def test_a_notebook_is_read_as_cells_with_short_outputs(root: Path) -> None:
    outputs = [
        {"output_type": "stream", "text": "line\n" * 1000},
        {"output_type": "display_data", "data": {"image/png": "AAAA"}},
        {"output_type": "error", "ename": "KeyError", "evalue": "'x'"},
    ]
    code = {"cell_type": "code", "id": "c-1", "execution_count": 3, "source": "print(1)", "outputs": outputs}
    cells = [{"cell_type": "markdown", "source": ["# Title\n", "Text"]}, code]
    (root / "n.ipynb").write_text(json.dumps({"cells": cells, "nbformat": 4}))
    shown = run(root, "read_notebook", path="n.ipynb")
    assert shown.startswith(
        "n.ipynb, as it was last saved: 2 cells, numbered from 0.\n\na cell without an id (markdown, number 0)\n"
        "# Title\nText\n\n[3] cell:c-1 (code, number 1)\nprint(1)\n--- output: line"
    )
    assert "(image/png)" in shown
    assert "KeyError: 'x'" in shown
    assert len(shown) < 2000
    assert "Read on with first_cell=1" in run(root, "read_notebook", path="n.ipynb", cells=1)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("search_files", {"query": r"(.|.)*\x00", "regex": True}),
        ("list_files", {"pattern": "*?" * 14 + "!"}),
    ],
)
def test_a_pattern_that_never_ends_is_ended(
    root: Path, tool: str, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / ("a" * 100)).write_text("a" * 100 + "\n")
    monkeypatch.setattr(search_process, "SECONDS", 1.0)
    with pytest.raises(ToolFailed, match="simpler pattern"):
        run(root, tool, **arguments)
