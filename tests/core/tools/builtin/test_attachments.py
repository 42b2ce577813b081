"""Pictures attached to Markdown cells: a prompt names that of the nearest cell above it, in the saved notebook."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.errors import ToolFailed
from agent_kernel.tools.builtin.prompt_pictures import read_attachment

NOTEBOOK = "folder/plots.ipynb"
"""As a server knows it, from its own root."""
OTHER_NAME = r"2 Markdown cells have an attachment of this name, .* Give it another name"


def markdown(picture: Any, name: str = "image.png", *, kind: str = "image/png", cell_id: str | None = "") -> Any:
    cell = {"cell_type": "markdown", "source": [], "attachments": {name: {kind: picture}}}
    return cell | ({} if cell_id is None else {"id": cell_id or f"of-{picture}"[:64]})


def code(cell_id: str) -> Any:
    return {"cell_type": "code", "id": cell_id, "source": "", "outputs": []}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "folder"
    root.mkdir()
    return root


def read(folder: Path, cells: Any, cell_id: str | None = None, name: str = "image.png") -> str:
    (folder / "plots.ipynb").write_text(json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5}))
    return read_attachment(folder, NOTEBOOK, name, cell_id)


def test_of_several_with_one_name_the_nearest_above_the_prompt_is_meant(folder: Path) -> None:
    cells = [markdown("one"), code("a"), markdown("two"), markdown("no", "other.png"), code("b"), markdown("three")]
    assert read(folder, cells, "a") == "one"
    assert read(folder, cells, "b") == "two"


def test_one_below_the_prompt_is_not_meant(folder: Path) -> None:
    with pytest.raises(ToolFailed, match=r"no Markdown cell above this cell .* save the notebook first"):
        read(folder, [code("a"), markdown("one")], "a")


@pytest.mark.parametrize("cell_id", [None, "vscode-notebook-cell:/home/me/plots.ipynb#W0sZmlsZQ%3D%3D"])
def test_where_the_cell_is_not_known_the_only_one_of_that_name_is_meant(folder: Path, cell_id: str | None) -> None:
    cells = [code("a"), markdown("one"), markdown("two", "other.png")]
    assert read(folder, cells, cell_id) == "one"
    with pytest.raises(ToolFailed, match=OTHER_NAME):
        read(folder, [*cells, markdown("three")], cell_id)


def test_an_attachment_that_is_missing_may_not_be_saved_yet(folder: Path) -> None:
    raw = markdown("one") | {"cell_type": "raw"}
    for cells in ([], [code("a")], [raw, code("a")], [markdown("one", "other.png"), code("a")]):
        with pytest.raises(ToolFailed, match=r"has this attachment\. If you see it there, save the notebook first"):
            read(folder, cells, "a" if cells else None)


def test_a_notebook_that_is_a_link_or_hidden_or_too_large_is_not_read(folder: Path) -> None:
    secret = folder.parent / "secret.ipynb"
    secret.write_text(json.dumps({"cells": [markdown("secret")]}))
    (folder / "plots.ipynb").symlink_to(secret)
    with pytest.raises(ToolFailed, match="the saved notebook is not read: links are not followed"):
        read_attachment(folder, NOTEBOOK, "image.png")
    with pytest.raises(ToolFailed, match="the notebook is not in its kernel's folder"):
        read_attachment(folder, "../secret.ipynb", "image.png")
    with pytest.raises(ToolFailed, match="hidden files are not read"):
        read_attachment(folder, "folder/.plots.ipynb", "image.png")
    with (folder / "large.ipynb").open("wb") as file:
        file.truncate(300 * 1024 * 1024)
    with pytest.raises(ToolFailed, match="the saved notebook is not read: it has 314,572,800 bytes"):
        read_attachment(folder, "large.ipynb", "image.png")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("no base64!", "it is no base64"),
        ("é", "it is no base64"),
        (base64.b64encode(b"no picture").decode(), "it is neither PNG nor JPEG"),
        ("A" * 50_000_000, "it has 37,500,000 bytes"),
    ],
    ids=["no base64", "not ASCII", "no picture", "50 MB"],
)
def test_what_a_hostile_notebook_holds_is_refused_before_it_is_decoded(
    folder: Path, monkeypatch: pytest.MonkeyPatch, data: str, why: str
) -> None:
    from agent_kernel.notebook import offered_tools

    monkeypatch.setattr(offered_tools, "FOLDER", folder)
    read(folder, [markdown(data, cell_id="a")])
    with pytest.raises(ToolFailed, match=why):
        offered_tools.picture_of("attachment:image.png", NOTEBOOK, None)
