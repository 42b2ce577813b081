"""The code of a run as cells: `run.to_cells()`, and `%agent code` in a kernel and in plain IPython."""

import pytest

from tests.notebooks.kernel import TestKernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

SCRIPTED = """
%load_ext agent_kernel
import agent_kernel as ak
from agent_kernel.testing import ScriptedModel, call, say
turns = [
    call("run_python", code="import math\\nx = 6 * 7\\nx"),
    call("run_python", code="no_such_name"),
    call("run_shell", command="exit 3"),
    call("run_python", code="%matplotlib inline\\nx += 1"),
    call("run_python", code="drop()"),
    say("It is **42**."),
]
script = [True, True, True, True, (False, "Not that.")]
run = ak.Agent(model=ScriptedModel(turns)).run('What is 6 * 7?', approvals=script)
"""
CODE = ["import math\nx = 6 * 7\nx", "%%bash --no-raise-error\nexit 3", "%matplotlib inline\nx += 1"]
BASH = "get_ipython().run_cell_magic('bash', '--no-raise-error', 'exit 3')"
TEXT = f"# %%\n{CODE[0]}\n\n# %%\n{BASH}\n\n# %%\n{CODE[2]}"


def test_a_run_is_cells_and_agent_code_puts_its_code_into_the_next_one(kernel: TestKernel) -> None:
    kernel.run(SCRIPTED)
    states = ["success", "error", "success", "success", "denied"]
    assert kernel.value("[call.state for call in run.tool_calls]") == repr(states)
    assert kernel.value("[cell.source for cell in run.to_cells()] == " + repr(CODE)) == "True"
    assert kernel.value("run.to_cells(whole=True)[-1].source") == "'It is **42**.'"
    (payload,) = kernel.run("%agent code").reply["payload"]
    assert payload == {"source": "set_next_input", "replace": False, "text": TEXT}
    assert kernel.run(payload["text"]).reply["status"] == "ok"
