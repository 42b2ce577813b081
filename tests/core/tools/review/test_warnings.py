"""How much of what risky code does a card says, and how often it says so of ordinary code.

The figures stand in docs/security/warnings.md.
"""

import re
from pathlib import Path

import pytest

from agent_kernel.tools.review.preview import warnings
from tests.corpus.ordinary_cells import ordinary_cells
from tests.corpus.risky_python import NOT_FOLLOWED, RISKY, UNSEEN

PAGE = Path(__file__).parents[4] / "docs" / "security" / "warnings.md"
FLAGGED_PER_THOUSAND = 25
FALSE_PER_THOUSAND = 1
LEAST_CELLS = 1_000
MINOR = {"Not checked:", "Reads the environment:", "Deletes variables:", "Shows HTML or script:"}
SAYS_SO = {
    "Writes files:": r"to_\w+\(|save|open\(|ExcelWriter|HDFStore|memmap|mkdir|write|tofile|dump|rename",
    "Uses the network:": r"://|fetch_|load_dataset|download",
    "Loads data that may run code:": r"pickle|load",
    "Runs code it builds:": r"\beval\(|exec\(|query\(|__import__|import_module",
    "Deletes columns:": r"drop|del |pop\(",
    "Deletes rows:": r"drop|inplace",
    "Deletes files:": r"remove|unlink|rmtree",
    "Runs shell commands:": r"subprocess|system|^!|%",
    "Changes a database:": r"to_sql",
    "Changes the kernel:": r"environ|chdir|signal|sys\.",
}
"""Where a cell has none of these words, the warning is false."""


def shown(code: str) -> dict[str, str]:
    return {warning.title: warning.detail for warning in warnings("run_python", {"code": code})}


def test_the_card_says_what_risky_code_does() -> None:
    missed = [(title, code) for title, codes in RISKY.items() for code in codes if title not in shown(code)]
    assert missed == []


def test_the_share_of_risky_code_that_is_seen_is_the_one_that_is_told() -> None:
    risky, others = (sum(map(len, cells.values())) for cells in (RISKY, NOT_FOLLOWED))
    of_another_kind = sum(any(shown(code)) for codes in NOT_FOLLOWED.values() for code in codes)
    assert not any(title in shown(code) for title, codes in NOT_FOLLOWED.items() for code in codes)
    assert not any(shown(code) for code in UNSEEN)
    cells, warned = risky + others + len(UNSEEN), risky + of_another_kind
    told = f"{risky} of {cells} ({risky / cells:.0%}); {warned} ({warned / cells:.0%}) show some warning"
    assert told in PAGE.read_text(encoding="utf-8")


@pytest.mark.slow
def test_ordinary_cells_hardly_ever_show_a_warning_and_hardly_ever_a_false_one() -> None:
    cells = ordinary_cells()
    assert len(cells) >= LEAST_CELLS
    found = [(cell, title) for cell in cells for title in shown(cell) if title not in MINOR]
    flagged = {cell for cell, _ in found}
    false = {cell for cell, title in found if not re.search(SAYS_SO.get(title, r"(?!)"), cell, re.MULTILINE)}
    assert len(flagged) * 1_000 / len(cells) <= FLAGGED_PER_THOUSAND, sorted(flagged)
    assert len(false) * 1_000 / len(cells) <= FALSE_PER_THOUSAND, sorted(false)


@pytest.mark.parametrize(
    "code",
    [
        "import tarfile\ntarfile.open('a.tar.xz', 'r:xz')",
        "import os\nos.open('a.txt', os.O_RDONLY)",
        "import pandas as pd\ndf.query('price > @limit')",
        "model.eval()",
        "import yaml\nyaml.load(text, Loader=yaml.SafeLoader)",
        "series.rename('price')\ntable.rename(columns={'a': 'b'})\ntext.replace('a', 'b')",
        "import io\nbuffer = io.BytesIO()\ndf.to_parquet(buffer)",
        "print('https://example.org')\nlink.startswith('https://')",
        "def open(path, mode):\n    return path\nopen('a', 'w')",
        "x = df.copy()\ndel x",
        "tokenizer = load(pad_token='[PAD]', token_pattern=r'\\w+')",
        "connection.execute('SELECT price FROM orders')",
        "text = '''\n!rm -rf data\n%%bash\n'''\n%time text.strip()",
        "reset = 3\nreset + 1",
        "import requests\ntry:\n    pass\nexcept requests.exceptions.HTTPError:\n    pass",
    ],
)
def test_code_that_only_looks_risky_has_no_warning(code: str) -> None:
    assert shown(code) == {}


@pytest.mark.parametrize(
    "first",
    ["os = None or os", "for os in modules: pass", "os.x = 1"],
)
def test_a_name_that_is_bound_again_silences_nothing(first: str) -> None:
    assert shown(f"{first}\nos.remove('orders.csv')").get("Deletes files:") == "orders.csv"


@pytest.mark.parametrize("code", ["", "%", "%%", "!", "() = 'x'", "exit", "df.eval()", "from . import os", "\0"])
def test_odd_code_is_read_to_its_end(code: str) -> None:
    shown(code)


def test_a_secret_is_not_repeated_in_its_warning() -> None:
    found = shown("password = 'hunter2000'\nkey = 'AKIA" + "IOSFODNN7EXAMPLE'")
    assert found == {"Contains secrets:": "password, an AWS access key"}
