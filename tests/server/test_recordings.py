"""Recording and replaying on a server: paths are relative to the notebook's folder, and stay inside the server's."""

import pytest

from agent_kernel.models.recordings.format import load
from agent_kernel.protocol.vocabulary import RECORDING_CHANGED
from agent_kernel.testing import FakeOpenAI, call, say
from tests.server.client import Kernel
from tests.server.serving import Server

pytestmark = pytest.mark.kernel

RESULT = """
import agent_kernel
agent_kernel.last_run().wait()
print(agent_kernel.last_run().status, agent_kernel.last_run().error, agent_kernel.last_run().messages[-1:])
"""
"""It defines no variable, which the model would be told of."""


async def play(kernel: Kernel, options: str, first: int = 1) -> str:
    await kernel.run(f"numbers = [{first}, 3]")
    await kernel.run(f"%%agent --new --policy allow {options}\nSum the numbers.")
    return await kernel.text(RESULT)


async def test_a_run_is_recorded_in_the_notebooks_folder_and_plays_from_there(
    open_kernel: Kernel, server: Server, model: FakeOpenAI
) -> None:
    model.add(call("run_python", code="print(sum(numbers))"), say("The sum is 4."))
    assert "The sum is 4." in await play(open_kernel, "--record sum.jsonl")
    path = server.root / "folder" / "sum.jsonl"
    assert len(load(path).turns) == 2
    asked = len(model.requests)
    played = await play(open_kernel, "--model replay:sum.jsonl")
    assert played.startswith("complete"), played
    assert "The sum is 4." in played
    stopped = await play(open_kernel, "--model replay:sum.jsonl", first=9)
    assert stopped.startswith("error")
    assert RECORDING_CHANGED in stopped
    assert f"{path}:4" in stopped
    assert "inside the server's directory" in await play(open_kernel, "--record ../../sum.jsonl")
    assert len(model.requests) == asked
