"""Scripts of a notebook's code on a server: what they decide, and what the site leaves to a person."""

import pytest

from agent_kernel.testing import FakeOpenAI, call, calls, say
from tests.server.client import Kernel

pytestmark = pytest.mark.kernel

TURN = calls(call("run_python", code="a = 1"), call("run_python", code="b = 1"), call("run_python", code="c = 1"))
RUN = """\
import agent_kernel as ak
run = ak.Agent().start("Go.", approvals=[
    ak.approve("run_python", {"code": "a = 1"}), ak.deny("Not b.", "run_python", {"code": "b = 1"}),
])
print(run.run_id)
"""
READ = "print(' '.join(f'{one.state}:{one.by}' for one in run.wait().tool_calls), 'a' in dir(), 'b' in dir())"


async def loaded(kernel: Kernel, model: FakeOpenAI) -> Kernel:
    model.add(TURN, say("Done."))
    await kernel.run("%load_ext agent_kernel")
    await kernel.run(RUN)
    return kernel


async def test_a_script_decides_on_the_server_with_a_person_there(kernel: Kernel, model: FakeOpenAI) -> None:
    await loaded(kernel, model)
    assert await kernel.text(READ) == "success:script denied:script denied:policy True False\n"
    notes = await kernel.text("from agent_kernel.notebook.run import state_of\nprint(state_of(run).view.policy.notes)")
    assert "A script in the notebook's code decides on calls that ask (2 decisions)" in notes
