"""The tab key in prompts."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from agent_kernel.notebook.completion import PromptCompleter
from agent_kernel.notebook.magics import HELP
from tests.notebooks.kernel import TestKernel
from tests.notebooks.test_mentions import Noisy

SALES = {"price": [1.5], "region": ["North"], "unit price": [2]}


def plot_it() -> None:
    """A function of the user's."""


@pytest.fixture
def completer(tmp_path: Path) -> PromptCompleter:
    root = tmp_path / "folder"
    (root / "data" / "deep").mkdir(parents=True)
    for name in ("sales.csv", "my file.csv", ".env", "data/sample.csv", "data/.hidden"):
        (root / name).write_text("x")
    (root / "link.csv").symlink_to(root / "sales.csv")
    (root / "linked").symlink_to(tmp_path)
    tables = {"sales": pd.DataFrame(SALES), "salt": pd.DataFrame(SALES)}
    variables = {**tables, "odd": Noisy(), "plot_it": plot_it, "_private": 1, "open": open}
    sources = ["", "%load_ext agent_kernel", "1 + 1", "%%agent\nWhy?", ""]
    history = SimpleNamespace(input_hist_raw=sources)
    shell: Any = SimpleNamespace(user_ns=variables, user_ns_hidden={"open": open}, history_manager=history)
    return PromptCompleter(shell, root, lambda: ["qwen3:8b", "demo"])


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("%%agent --mo", ["--model"]),
        ("%%agent --model=q", ["qwen3:8b"]),
        ("%%agent --policy ", ["ask", "edit", "allow", "deny", "plan"]),
        ("%%agent --tools run_python,pl", ["plot_it"]),
        ("%agent st", ["stats", "status", "stop"]),
        ("%agent un", ["undo"]),
        ("%agent config policy=a", ["ask", "allow"]),
        # A prompt.
        ("%%agent\nWhy has @sal", ["sales", "salt", "sales.csv"]),
        ("%%agent --wait\nWhy?\n\nIt's in @sales.", ["sales.price", "sales.region", "sales.csv"]),
        ("%%agent\nIn the sal", ["sales", "salt"]),
        ("%%agent\n@data/", ["data/deep/", "data/sample.csv"]),
        ('%%agent\n@"my', ['"my file.csv"']),
        ("%%agent\n@[", ["[2]", "[1]"]),
        ("%%agent\n@odd.", []),
        # Nothing hidden, no links, nothing outside; no mention.
        ("%%agent\n@.e", []),
        ("%%agent\n@li", []),
        ("%%agent\n@linked/", []),
        ("%%agent\nana@sal", []),
        ("@sal", None),
    ],
)
def test_the_tab_key_offers(completer: PromptCompleter, text: str, offered: list[str] | None) -> None:
    found = completer.offers(text)
    if offered == [] and found is None:
        return
    assert (found and list(found.texts)) == offered
    assert found is None or text.endswith(found.written)
    assert Noisy.ran == []


def test_each_command_and_option_that_the_help_names_is_offered(completer: PromptCompleter) -> None:
    for start, text in (("%agent ", "%agent "), ("  --", "%agent --")):
        named = {line.removeprefix(start).split()[0] for line in HELP.split("\n") if line.startswith(start)}
        found = completer.offers(text)
        assert found is not None
        assert {one.removeprefix("--") for one in found.texts} == named - {"[options]"}


@pytest.mark.kernel
@pytest.mark.slow
def test_in_a_kernel_it_takes_the_place_of_pythons(kernel: TestKernel, tmp_path: Path) -> None:
    kernel.run("%load_ext agent_kernel\n%reload_ext agent_kernel\nimport pandas as pd")
    kernel.run("sales = pd.DataFrame({'price': [1.5]})")
    assert kernel.complete("%%agent\nIt's why @sal") == ["%%agent\nIt's why @sales"]
    assert kernel.complete("%%agent\nIt's why @sales.") == ["%%agent\nIt's why @sales.price"]
    assert kernel.complete("%%agent --policy pl") == ["%%agent --policy plan"]
    assert "sales.price" in kernel.complete("sales.pr")
    kernel.run("%unload_ext agent_kernel")
    assert "%%agent\nIt's why @sales.price" not in kernel.complete("%%agent\nIt's why @sal")
