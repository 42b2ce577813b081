"""What the model is told of cells that ran and failed, by a real kernel, in notebooks that fail in different ways."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_kernel.protocol.calls import source_digest
from tests.notebooks.conftest import SERVED
from tests.notebooks.kernel import TestKernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

KEY = "sk-proj-" + "a1B2" * 10
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"
HELPERS = """def total(rows, column):
    prices = [row[column] for row in rows]
    return sum(prices)
"""
NOISY = """ran = []
class Noisy(Exception):
    def __str__(self):
        ran.append("str")
        raise RuntimeError("no text")
    __repr__ = __str__
    @property
    def args(self): ran.append("args")
    @property
    def __traceback__(self): ran.append("traceback")
"""
GROUP = """def fail(number):
    raise ValueError(f"row {number}")
failures = []
for number in range(200):
    try: fail(number)
    except ValueError as error: failures.append(error)
raise ExceptionGroup("200 rows failed", failures)"""
NOTEBOOKS: dict[str, tuple[list[str], list[str], list[str]]] = {
    "inside a library": (
        ["import pandas as pd\ndf = pd.DataFrame({'price': [1, 2]})\ndf", "df['pric'] * 2"],
        ["KeyError: 'pric'", "pandas/core/frame.py, line ", "caused by KeyError", "-> pandas.DataFrame 2 x 1"],
        ["get_loc(key)"],
    ),
    "a syntax error": (
        ["import math", "total = = 3"],
        ["SyntaxError: invalid syntax", "], line 1\n", "total = = 3\n              ^"],
        [],
    ),
    "a shell": (
        ["print('before')", "%%bash\necho loading\nls /nowhere-at-all >&2\nexit 3"],
        ["%%bash", "stdout: loading", "stderr: ls: cannot access '/nowhere-at-all'", "CalledProcessError", "status 3"],
        ["echo loading\\n"],
    ),
    "an exception group of 200": (
        [GROUP],
        ["ExceptionGroup: 200 rows failed", "1 of 200", "ValueError: row 0", "line 2, in fail", "195 more ValueError"],
        ["row 7"],
    ),
    "an exception with code of its own": (
        [NOISY, "ran.clear()\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    raise Noisy('told')"],
        ["failed: __main__.Noisy: told", "while handling ZeroDivisionError: division by zero"],
        [],
    ),
    "a script that a magic runs": (
        ["%run failing.py"],
        ["failed: KeyError: 'cost'\n    failing.py, line 2\n", "        print(rows[0]['cost'])"],
        [],
    ),
    "keys": (
        [f"import os\nkey = '{KEY}'", f"print(os.environ['DB_PASSWORD'])\nraise ValueError('{JWT} and {KEY}')"],
        ["key = '[API key]'", "stdout: [API key]", "ValueError: [API key] and [API key]"],
        [KEY[:14], "hunter2-hunter2", JWT[:20]],
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("notebook")
    (folder / "helpers.py").write_text(HELPERS)
    (folder / "failing.py").write_text("rows = [{'price': 2}]\nprint(rows[0]['cost'])\n")
    return folder


@pytest.fixture(scope="module")
def shared(folder: Path) -> Iterator[TestKernel]:
    kernel = TestKernel({**os.environ, "DB_PASSWORD": "hunter2-hunter2"})
    kernel.run(f"import os; os.chdir({str(folder)!r})\nimport sys; sys.path.insert(0, '')\n%load_ext agent_kernel")
    yield kernel
    kernel.close()


def run_cells(kernel: TestKernel, cells: list[str]) -> str:
    """Run the cells of a notebook, and return what the model is told of them."""
    replies = [kernel.result(kernel.send_cell(f"cell-{index}", cell)).reply for index, cell in enumerate(cells)]
    told: str = kernel.request("environment")["text"]
    return told[told.index(f"[{replies[0]['execution_count']}] cell:cell-0") :]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_model_is_told_how_a_cell_failed(shared: TestKernel, name: str) -> None:
    cells, said, unsaid = NOTEBOOKS[name]
    told = run_cells(shared, cells)
    assert [text for text in said if text not in told] == [], told
    assert [text for text in unsaid if text in told] == [], told
    assert max(map(len, told.split("\n["))) <= 6_000


def test_a_prompt_names_cells_and_whole_sources_and_leaves_out_its_own(start_kernel: Callable[..., TestKernel]) -> None:
    kernel = start_kernel(**SERVED)
    kernel.run("import json; json.loads('{')")
    kernel.run("1 / 0")
    kernel.run("%load_ext agent_kernel")
    long = "total = 0\n" + "total += 1\n" * 500
    for cell_id, source in (("a", "x = 1"), ("b", long), ("a", "x = 2\n"), ("c", f"key = '{KEY}'")):
        kernel.result(kernel.send_cell(cell_id, source))
    kernel.call("apr_1", "print('of a call')")
    kernel.result(kernel.send_cell("p", "%%agent\nFix it", agentKernelNewConversation=True))
    kernel.result(kernel.send_cell("q", "import agent_kernel as ak\nrun = ak.Agent().start('Fix it')"))
    run_id = kernel.events[-1]["run_id"]
    told = kernel.request("environment", run_id=run_id)
    cells = [line for line in told["text"].split("\n") if line.startswith("[")]
    assert cells == ["[1]", "[2]", "[3]", "[5] cell:b", "[6] cell:a", "[7] cell:c"], told["text"]
    # From before the extension was loaded: what IPython has shown.
    assert "failed: ZeroDivisionError: division by zero\n" in told["text"]
    assert "failed: JSONDecodeError: Expecting property name" in told["text"]
    assert [text for text in ("x = 1", "of a call") if text in told["text"]] == []
    assert told["cells"] == [{"cell_id": "a", "digest": source_digest("x = 2\n")}]


TOLD = """import agent_kernel as ak
from agent_kernel.testing import ScriptedModel, say
model = ScriptedModel([say('Done.')])
run = ak.Agent(model=model).run('Why?')
print(model.requests[0].messages[-1]['content'])"""


def test_plain_ipython_tells_the_model_of_its_cells(tmp_path: Path) -> None:
    program = "from IPython.terminal.interactiveshell import TerminalInteractiveShell\n"
    program += "shell = TerminalInteractiveShell.instance()\n"
    for cell in ("%load_ext agent_kernel", "print('loaded')\n1 / 0", TOLD):
        program += f"shell.run_cell({cell!r}, store_history=True)\n"
    home = {**os.environ, "IPYTHONDIR": str(tmp_path), "NO_COLOR": "1"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=home, check=True)
    told = done.stdout[done.stdout.index("<notebook_context>") :]
    assert "[2]\nprint('loaded')\n1 / 0\n  stdout: loaded\n  failed: ZeroDivisionError: division by zero" in told
    assert "run = ak" not in told
