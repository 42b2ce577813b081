"""What the file tools open is what was judged, whatever happens to the names in between."""

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_kernel.errors import ToolFailed
from agent_kernel.notebook.execution.backups import Backups
from agent_kernel.tools.builtin.cells import read_notebook
from agent_kernel.tools.builtin.changes import planned_write, read_file
from agent_kernel.tools.builtin.paths import resolve
from agent_kernel.tools.builtin.places import builtin_verdict
from agent_kernel.tools.builtin.search import list_files, search_files
from tests.file_tools import edit_file, write_file
from tests.flipping import flipped

ROUNDS = 250
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links take rights there that few have")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A notebook's folder with a folder in it that another process flips with a link to the one beside it."""
    for place in ("outside", "work/data"):
        (tmp_path / place).mkdir(parents=True)
        inside = place != "outside"
        (tmp_path / place / "rows.csv").write_text("inside\n" if inside else "secret\n")
        (tmp_path / place / "n.ipynb").write_text(f'{{"cells": [], "metadata": "{"inside" if inside else "secret"}"}}')
    (tmp_path / "outside" / "secret.csv").write_text("secret\n")
    return tmp_path / "work"


def outcomes(act: Callable[[], str]) -> list[str]:
    """What a call says many times, or why it failed."""
    said: list[str] = []
    for _ in range(ROUNDS):
        try:
            said.append(act())
        except ToolFailed as failure:
            said.append(f"failed: {failure}")
    return said


@pytest.mark.parametrize(
    "read",
    [
        lambda root, place: read_file(root, "data/rows.csv", approved=place),
        lambda root, place: list_files(root, "data", "*.csv", approved=place.parent),
        lambda root, _: search_files(root, "secret"),
        lambda root, place: read_notebook(root, "data/n.ipynb", approved=place.with_name("n.ipynb")),
    ],
    ids=["read", "list all", "search all", "notebook"],
)
def test_no_read_leaves_the_folder_while_a_folder_in_it_is_flipped(
    root: Path, read: Callable[[Path, Path], str]
) -> None:
    place = resolve("data/rows.csv", root)
    with flipped(root / "data", root.parent / "outside"):
        said = outcomes(lambda: read(root, place))
    assert len(said) == ROUNDS
    told = [one for one in said if not one.startswith(("failed", "No match"))]
    assert [one for one in told if "secret\n" in one or "secret" in one.split(":")[-1]] == []


def test_no_write_leaves_the_folder_while_a_folder_in_it_is_flipped(root: Path) -> None:
    outside = root.parent / "outside"
    before = {file.name: file.read_text() for file in outside.iterdir()}
    place = resolve("data/rows.csv", root)
    with flipped(root / "data", outside):
        outcomes(lambda: write_file(root, "data/rows.csv", "written\n", approved=place))
        outcomes(lambda: edit_file(root, "data/rows.csv", "inside", "edited", approved=place))
        outcomes(lambda: write_file(root, "data/deeper/new.csv", "x", approved=place.parent / "deeper" / "new.csv"))
    assert {file.name: file.read_text() for file in outside.iterdir()} == before


def test_undo_puts_nothing_back_through_a_link_that_came_later(root: Path) -> None:
    backups = Backups()
    change = planned_write(root, "data/rows.csv", "written\n")
    backups.carry_out("approval", change, "data/rows.csv")
    outside = root.parent / "outside"
    (outside / "rows.csv").write_text("written\n")
    (root / "data").rename(root / "away")
    (root / "data").symlink_to(outside)
    with pytest.raises(ToolFailed, match="Nothing was put back"):
        backups.undo("approval")
    assert (outside / "rows.csv").read_text() == "written\n"


def test_a_path_that_leads_elsewhere_than_where_it_was_approved_for_is_refused_with_both_places(root: Path) -> None:
    place = resolve("data/rows.csv", root)
    assert builtin_verdict("read_file", {"path": "data/rows.csv"}, root).approval == "allow"
    (root / "data" / "rows.csv").unlink()
    (root / "data" / "rows.csv").symlink_to(root.parent / "outside" / "rows.csv")
    for act in (
        lambda: read_file(root, "data/rows.csv", approved=place),
        lambda: write_file(root, "data/rows.csv", "x", approved=place),
        lambda: edit_file(root, "data/rows.csv", "secret", "x", approved=place),
        lambda: search_files(root, "secret", "data/rows.csv", approved=place),
    ):
        with pytest.raises(ToolFailed, match=r"leads to .*outside/rows\.csv now; this call was approved for .*work"):
            act()
    assert (root.parent / "outside" / "rows.csv").read_text() == "secret\n"


def test_a_pipe_in_place_of_a_file_holds_nobody_up(root: Path) -> None:
    (root / "data" / "rows.csv").unlink()
    os.mkfifo(root / "data" / "rows.csv")
    said: list[str] = []

    def read_all() -> None:
        for act in (
            lambda: read_file(root, "data/rows.csv"),
            lambda: edit_file(root, "data/rows.csv", "a", "b"),
            lambda: write_file(root, "data/rows.csv", "a"),
        ):
            try:
                said.append(act())
            except ToolFailed as failure:
                said.append(str(failure))
        said.append(search_files(root, "secret", "data/rows.csv"))

    thread = threading.Thread(target=read_all, daemon=True)
    thread.start()
    thread.join(60)
    assert [line for line in said if "not a regular file" not in line] == [said[-1]]
    assert "1 binary, unreadable" in said[-1]
