"""Scripts of a notebook's code on a server: what they decide, and what the site leaves to a person."""

import pytest

from agent_kernel.testing import FakeOpenAI, call, calls, say
from tests.server.client import Kernel

pytestmark = pytest.mark.kernel

TURN = calls(call("run_python", code="a = 1"), call("run_python", code="b = 1"), call("run_python", code="c = 1"))
RUN = """\
import agent_kernel as ak
run = ak.Agent().start("Go.", approvals=[
    ak.approve("run_python", {"code": "a = 1"}), ak.deny("Not b.", "run_python"),
])
print(run.run_id)
"""
READ = "print(' '.join(f'{one.state}:{one.by}' for one in run.wait().tool_calls), 'a' in dir(), 'b' in dir())"


async def test_a_script_decides_on_the_server_with_a_person_there(loaded: Kernel, model: FakeOpenAI) -> None:
    model.add(TURN, say("Done."))
    await loaded.run(RUN)
    assert await loaded.text(READ) == "success:script denied:script denied:policy True False\n"
