"""How much of what risky code does a card says. The figures stand in docs/security/warnings.md."""

from pathlib import Path

import pytest

from agent_kernel.tools.review.preview import warnings
from tests.corpus.risky_python import NOT_FOLLOWED, RISKY, UNSEEN

PAGE = Path(__file__).parents[4] / "docs" / "security" / "warnings.md"


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
