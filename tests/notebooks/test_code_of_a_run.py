"""The code of a run as cells: `run.to_cells()`, and `%agent code` in a kernel and in plain IPython."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.notebooks.kernel import TestKernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

SCRIPTED = """
%load_ext agent_kernel
import agent_kernel as ak
from agent_kernel.testing import ScriptedModel, call, calls, say

@ak.tool(approval="allow")
def double(n: int) -> int:
    "Double it."
    return 2 * n

TURNS = [
    calls(call("run_python", code="import math\\nx = 6 * 7\\nx"), call("run_python", code="no_such_name")),
    call("write_file", path="out/x.txt", content="six\\nseven\\n"),
    call("run_shell", command="cat out/x.txt | wc -l"),
    call("run_shell", command="exit 3"),
    calls(call("double", n=2), call("inspect_variables")),
    call("run_python", code="%matplotlib inline\\nprint(open('out/x.txt').read())"),
    call("run_python", code="drop()"),
    say("It is **42**."),
]
SCRIPT = [True, True, True, True, True, True, (False, "Not that.")]
"""
RUN = (
    "run = ak.Agent(model=ScriptedModel(TURNS), tools=[double]).run('What is 6 * 7?', approvals=SCRIPT)\n"
    "print([(call.tool_name, call.state) for call in run.tool_calls])"
)
CODE = [
    "import math\nx = 6 * 7\nx",
    "from pathlib import Path\n\nPath('out').mkdir(parents=True, exist_ok=True)\n"
    'Path(\'out/x.txt\').write_text("""\\\nsix\nseven\n""", encoding=\'utf-8\')',
    "%%bash\ncat out/x.txt | wc -l",
    "%%bash --no-raise-error\nexit 3",
    "# The agent called a tool of the notebook's own:\n# double(n=2)",
    "%matplotlib inline\nprint(open('out/x.txt').read())",
]


@pytest.fixture
def ended(start_kernel: Callable[..., TestKernel], tmp_path: Path) -> TestKernel:
    """A kernel with a run that has done all that calls can do."""
    kernel = start_kernel()
    kernel.run(f"import os; os.chdir({str(tmp_path)!r})")
    kernel.run(SCRIPTED)
    said = kernel.run(RUN).streams()
    assert "('run_python', 'denied')" in said, said
    assert "('run_python', 'error')" in said, said
    return kernel


def test_a_run_is_cells_and_agent_code_puts_its_code_into_the_next_one(ended: TestKernel) -> None:
    assert ended.value("[cell.source for cell in run.to_cells()] == " + repr(CODE)) == "True"
    assert ended.value("run.to_cells(whole=True)[-1].source") == "'It is **42**.'"
    (payload,) = ended.run("%agent code").reply["payload"]
    assert (payload["source"], payload["replace"]) == ("set_next_input", False)
    assert payload["text"].startswith("# %%\nimport math\nx = 6 * 7\nx\n\n# %%\nfrom pathlib import Path")
    assert payload["text"].count("# %%\n") == len(CODE)
    assert ended.run(payload["text"]).reply["status"] == "ok"


def test_in_plain_ipython_the_code_stands_at_the_next_prompt(tmp_path: Path) -> None:
    program = (
        "import json\n"
        "from IPython.terminal.interactiveshell import TerminalInteractiveShell\n"
        "shell = TerminalInteractiveShell.instance()\n"
        f"shell.run_cell({SCRIPTED!r})\n"
        'shell.run_cell(\'model = ScriptedModel([call("run_python", code="y = 1\\\\ny"), say("Done.")])\')\n'
        "shell.run_cell('agent = ak.Agent(model=model)')\n"
        "shell.run_cell(\"run = agent.run('Set y.', approvals=[True])\")\n"
        "shell.run_line_magic('agent', 'code')\n"
        "print('NEXT', json.dumps(shell.rl_next_input))\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True
    ).stdout
    (line,) = [line for line in said.splitlines() if line.startswith("NEXT ")]
    assert json.loads(line.removeprefix("NEXT ")) == "y = 1\ny"
