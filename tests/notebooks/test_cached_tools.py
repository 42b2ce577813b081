"""Tools with a cache in a kernel that no server serves: what has their calls run again."""

from collections.abc import Iterator

import pytest

from agent_kernel.testing import FakeOpenAI, call, say
from tests.notebooks.kernel import TestKernel

pytestmark = pytest.mark.kernel

TOOL = """\
import agent_kernel as ak
x = 1
@ak.tool(approval="allow", read_only=True, cache=True)
def look(key: str) -> int:
    "Look."
    return x
@ak.tool(approval="allow")
def change() -> None:
    "Change."
agent = ak.Agent(tools=[look, change], policy="allow")
def looked(run):
    return [(one.cached_at is not None, one.result.split()[-1]) for one in run.tool_calls if one.tool_name == "look"]
"""
LOOK = call("look", key="a")


@pytest.fixture
def model() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as server:
        yield server


@pytest.fixture
def loaded(kernel: TestKernel, model: FakeOpenAI) -> TestKernel:
    kernel.run(f"import os\nos.environ.update({model.environment()!r})")
    assert kernel.run(f"%load_ext agent_kernel\n{TOOL}").ok
    return kernel


def test_an_outcome_is_given_again_until_a_cell_or_a_call_may_have_changed_it(
    loaded: TestKernel, model: FakeOpenAI
) -> None:
    def looked(code: str, *turns: object) -> object:
        model.add(*turns, say("Done."))
        return eval(loaded.value(f"{code}\nlooked(run)"))

    go = 'run = agent.run("Go.")'
    assert looked(go, LOOK, LOOK) == [(False, "1"), (True, "1")]
    assert loaded.run("x = 2").ok
    assert looked(go, LOOK) == [(False, "2")]
    code = call("run_python", code="x = 3")
    assert looked(go, LOOK, LOOK, code, LOOK, LOOK) == [
        *[(False, "2"), (True, "2")],
        *[(False, "3"), (True, "3")],
    ]
    assert looked(go, LOOK, call("change"), LOOK) == [(False, "3"), (False, "3")]
    # A cell goes on between two of its runs.
    model.add(LOOK, say("Done."))
    assert looked(f"first = agent.run('Go.')\nx = 4\n{go}", LOOK, LOOK) == [(False, "4"), (True, "4")]
    model.add(LOOK, say("Done."))
    assert looked("first = await agent.start('Go.')\nx = 5\nrun = await agent.start('Go.')", LOOK) == [(False, "5")]
