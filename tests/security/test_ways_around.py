"""Ways around a rule, a folder, a name and a limit."""

import os
from pathlib import Path

import pytest
from jupyter_server.auth.identity import User

from agent_kernel.approvals.policy import Policy
from agent_kernel.approvals.rules import JudgedCall
from agent_kernel.errors import ToolFailed
from agent_kernel.tools.builtin.cells import read_notebook
from agent_kernel.tools.builtin.changes import read_file
from agent_kernel.tools.builtin.declarations import BUILTIN_TOOLS, no_looser
from agent_kernel.tools.builtin.places import builtin_verdict
from agent_kernel.tools.builtin.search import list_files, search_files
from agent_kernel.tools.declaration import ToolDeclaration
from agent_kernel_server.identity import person_of
from tests.file_tools import edit_file, write_file

READERS = ("read_file", "list_files", "search_files", "read_notebook")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A notebook's folder, with a secret beside it and links that lead there."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key.txt").write_text("hunter2")
    folder = tmp_path / "work"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "rows.csv").write_text("a,b\n1,2\n")
    (folder / ".env").write_text("KEY=hunter2")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "data" / "file-link").symlink_to(tmp_path / "secret" / "key.txt")
    (folder / "loop").symlink_to(folder / "loop")
    return folder


OUTSIDE = """
    .. data/../../secret/key.txt link/key.txt data/file-link /etc/passwd data/../.env data\0/rows.csv
"""


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("path", OUTSIDE.split())
def test_no_reading_outside_the_folder_goes_unasked(root: Path, name: str, path: str) -> None:
    assert builtin_verdict(name, {"path": path}, root).approval == "ask"


HIDDEN_OR_RUN = """
    ../secret/key.txt link/key.txt data/file-link /etc/passwd . .env .agent-kernel.toml data/.agent-kernel.toml
    .git/config .venv/lib/site.py venv/lib/site.py sitecustomize.py other.ipynb data/x\u202egpj.py data\0/rows.csv
"""


def test_the_mode_edit_covers_files_of_the_folder_that_are_neither_hidden_nor_change_how_things_run(root: Path) -> None:
    (root / "venv").mkdir()
    (root / "venv" / "pyvenv.cfg").touch()
    covered = ["data/rows.csv", "./data/new.csv", "analysis.py", "data/../notes.md", "new/folder/a.txt"]
    paths = [*covered, *HIDDEN_OR_RUN.split(), "", 7, None, ["data/rows.csv"]]
    assert [path for path in paths if builtin_verdict("write_file", {"path": path}, root).may_edit] == covered


def test_a_folder_search_does_not_leave_the_folder(root: Path) -> None:
    for shown in (
        search_files(root, "hunter2"),
        search_files(root, "hunter2", pattern="**/*"),
        search_files(root, "hunter2", pattern="../secret/*"),
        list_files(root, ".", "**"),
        list_files(root, ".", "../secret/*"),
        list_files(root, ".", "/../secret/k*"),
    ):
        assert "key.txt" not in shown
        assert ".env" not in shown


def test_devices_pipes_and_huge_files_are_refused(root: Path) -> None:
    os.mkfifo(root / "pipe")
    with (root / "huge.txt").open("wb") as file:
        file.truncate(1 << 40)
    for path in ("pipe", "huge.txt", "/dev/zero", "loop/x", "loop", "data", "data\0", "x" * 5000):
        for read in (read_file, read_notebook):
            with pytest.raises(ToolFailed):
                read(root, path)
        with pytest.raises(ToolFailed):
            edit_file(root, path, "a", "b")
    for path in ("pipe", "data", "/dev/zero"):
        with pytest.raises(ToolFailed, match="not a regular file"):
            write_file(root, path, "x")
    assert "not searched" in search_files(root, "a", "huge.txt")


@pytest.mark.parametrize(
    "path",
    ["secret/key", "a/../secret/key", "secret//key"],
)
@pytest.mark.parametrize("verb", ["deny", "ask"])
def test_a_rule_against_a_path_sees_through_other_spellings_of_it(path: str, verb: str) -> None:
    for rule in (f'{verb} read_file where path matches "*secret/k*"', f"{verb} read_file where path is secret/key"):
        call = JudgedCall("read_file", {"path": path}, "d" * 64, "allow", read_only=True)
        assert Policy(["allow *", rule], "allow").judge(call).approval == verb


def test_the_built_in_tools_may_be_declared_stricter_and_not_looser() -> None:
    for shipped in BUILTIN_TOOLS:
        loose = ToolDeclaration(shipped.name, "Mine.", {"type": "object"}, "allow", read_only=True, runs_in="page")
        held = no_looser(loose)
        assert (held.approval, held.read_only, held.runs_in) == (shipped.approval, shipped.read_only, shipped.runs_in)
        assert no_looser(ToolDeclaration(shipped.name, "Mine.", {"type": "object"}, "deny")).approval == "deny"
    own = ToolDeclaration("own", "Mine.", {"type": "object"}, "allow", read_only=True)
    assert no_looser(own) == own


def test_who_decided_is_told_apart_from_a_namesake() -> None:
    ana, other = (User(username=account, name="Ana Silva", display_name="Ana Silva") for account in ("ana", "mallory"))
    assert (person_of(ana), person_of(other)) == ("Ana Silva (ana)", "Ana Silva (mallory)")
    assert person_of(User(username="ana", name="ana", display_name="ana")) == "ana"
    assert person_of(User(username="8f0c", name="Anonymous Io", display_name="Anonymous Io")) is None
