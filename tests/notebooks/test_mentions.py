"""What a kernel reads for the mentions of a prompt."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pandas as pd
import pytest

from agent_kernel.notebook.context.told_cells import RanCell
from agent_kernel.notebook.kernel.mentions import read_mentions
from agent_kernel.protocol.calls import source_digest
from agent_kernel.protocol.kernel import Mention
from tests.notebooks.headless import SETUP
from tests.notebooks.kernel import TestKernel

NOTEBOOK = "folder/report.ipynb"
"""As a server knows it, from its own root."""


class Noisy:
    """Writes down whatever runs code of it."""

    ran: ClassVar[list[str]] = []

    def __repr__(self) -> str:
        self.ran.append("repr")
        return ""

    def __getattr__(self, name: str) -> Any:
        self.ran.append(name)
        return self


def read(
    root: Path, *names: str, cells: Any = None, known: Any = None, history: Any = None, **variables: Any
) -> list[Mention]:
    """`known`: cells that ran in the kernel; of those in `history` it has only the sources."""
    if cells is not None:
        (root / "report.ipynb").write_text(json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5}))

    def find(name: int | str) -> tuple[RanCell | None, bool]:
        if name in (known or {}):
            return known[name], True
        return (RanCell(name, history[name]) if isinstance(name, int) and name in (history or {}) else None), False

    shell: Any = SimpleNamespace(user_ns=variables, user_ns_hidden={})
    ran: Any = SimpleNamespace(find=find)
    return list(read_mentions(shell, ran, names, NOTEBOOK, root))


def told(root: Path, name: str, **given: Any) -> str:
    [mention] = read(root, name, **given)
    assert mention.name == name
    assert mention.refusal is None
    return mention.text


def code(source: Any, *outputs: Any, cell_id: str = "a1", count: int | None = 3) -> Any:
    cell = {"cell_type": "code", "id": cell_id, "execution_count": count, "source": source}
    return cell | {"outputs": list(outputs)}


def error(*trace: str) -> Any:
    return {"output_type": "error", "ename": "KeyError", "evalue": "'price'", "traceback": list(trace)}


@pytest.mark.parametrize("name", ["sales", "sales.price"])
def test_a_variable_its_columns_and_attributes_give_its_summary(tmp_path: Path, name: str) -> None:
    text = told(tmp_path, name, sales=pd.DataFrame({"price": [1.5], "region": ["North"]}))
    assert text.startswith("the variable sales: pandas.DataFrame 1 x 2, columns: price (float64), region (")
    assert "1.5 | 'North'" in text


def test_a_file_beside_a_variable_of_that_name(tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_text("price,region\n1.5,North\n")
    text = told(tmp_path, "sales.csv", sales=[1])
    assert text == "the file sales.csv (23 bytes), the whole file:\nprice,region\n1.5,North"
    assert told(tmp_path, "sales", sales=[1]).startswith("the variable sales: list")


@pytest.mark.parametrize("name", ["bob", "nothing.csv", "data", "[9]", "cell:none"])
def test_a_name_of_nothing_is_no_mention(tmp_path: Path, name: str) -> None:
    (tmp_path / "data").mkdir()
    assert read(tmp_path, name, np=json, cells=[code("1")]) == []


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("../outside.csv", "only files in the notebook's folder are read"),
        (".env", "hidden files are not read"),
        ("linked/inner.csv", "links are not followed"),
        ("picture.png", "it is a binary file of 3 bytes"),
        ("pipe.txt", "it is not a file"),
    ],
)
def test_what_may_not_be_read_is_not_and_the_reason_is_said(tmp_path: Path, name: str, why: str) -> None:
    root = tmp_path / "folder"
    root.mkdir()
    for path in (tmp_path / "outside.csv", tmp_path / "inner.csv", root / ".env"):
        path.write_text("secret")
    (root / "linked").symlink_to(tmp_path)
    (root / "picture.png").write_bytes(b"\x89\0P")
    os.mkfifo(root / "pipe.txt")
    [mention] = read(root, name)
    assert (mention.text, mention.refusal) == ("", why)


@pytest.mark.parametrize("name", ["[3]", "cell:a1"])
def test_a_cell_with_its_outputs_and_error(tmp_path: Path, name: str) -> None:
    stream = {"output_type": "stream", "name": "stdout", "text": ["loading\n", "done\n"]}
    cell = code(["x = 1\n", "sales['price']"], stream, error("\x1b[31mKeyError\x1b[0m Traceback", "line 2"))
    [mention] = read(tmp_path, name, cells=[code("0", count=2, cell_id="b"), cell])
    outputs = "--- output: loading\ndone\n--- output: KeyError Traceback\nline 2"
    assert mention.text == f"[3] cell:a1 (code, number 1)\nx = 1\nsales['price']\n{outputs}"
    assert mention.is_saved
    assert mention.is_cell
    assert mention.cell is not None
    assert (mention.cell.cell_id, mention.cell.digest) == ("a1", source_digest("x = 1\nsales['price']"))


def test_a_cell_that_ran_here_is_told_as_the_kernel_knows_it(tmp_path: Path) -> None:
    cell = RanCell(3, "1 / 0", "a1", error="ZeroDivisionError: division by zero")
    for name, key in (("[3]", 3), ("cell:a1", "a1")):
        [mention] = read(tmp_path, name, known={key: cell}, cells=[code("older", count=3)])
        assert mention.text == "[3] cell:a1\n1 / 0\n  failed: ZeroDivisionError: division by zero"
        assert mention.cell is not None
        assert mention.cell.digest == source_digest("1 / 0")


@pytest.mark.kernel
def test_a_prompt_is_sent_with_what_it_mentions(
    start_kernel: Callable[..., TestKernel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scripted = start_kernel()
    scripted.run(f"{SETUP}%load_ext agent_kernel\nsales = [1, 2, 3]")
    (tmp_path / "sales.csv").write_text("price\n1.5\n")
    scripted.run("sales['price']")
    scripted.run("model = ScriptedModel([say('Yes.')])")
    scripted.run("run = ak.Agent(model=model).run('Is @sales in @sales.csv? Fix @[2], @.env and a@example.com')")
    content = scripted.value("model.requests[0].messages[-1]['content']").replace("\\n", "\n").replace('"', "'")
    mentioned = content.partition("What the prompt mentions:\n")[2]
    assert "@sales is the variable sales: list of length 3" in mentioned
    assert "@sales.csv is the file sales.csv (10 bytes), the whole file:\nprice\n1.5" in mentioned
    assert "@[2] is [2]" in mentioned
    assert "failed: TypeError: list indices must be integers" in mentioned
    scripted.run("from agent_kernel.notebook.run import state_of; view = state_of(run).view")
    assert scripted.value("view.mentions") == "['@sales', '@sales.csv', '@[2]']"
    assert "hidden files are not read" in scripted.value("view.notices")


def test_none_of_the_users_code_runs(tmp_path: Path) -> None:
    assert told(tmp_path, "odd.name", odd=Noisy()).endswith(".Noisy")
    assert Noisy.ran == []
