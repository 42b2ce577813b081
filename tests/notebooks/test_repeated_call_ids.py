"""Several servers count a model's call ids anew in each conversation. In one kernel none is taken for another's."""

import pytest

from tests.notebooks.kernel import TestKernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

COUNTING = """
import threading
from agent_kernel.testing import ScriptedModel, call, calls, say
import agent_kernel as ak

def asks(*turns, call_id="call_0", tool="run_python"):
    return ScriptedModel([*(call(tool, call_id=call_id, **turn) for turn in turns), say("done")])

def begin(model, policy="allow", **options):
    return ak.Agent(model=model, policy=policy, **options).start("go")

def told(run):
    return run.status, [(one.tool_call_id, one.state, one.result) for one in run.tool_calls]
"""


@pytest.fixture
def counting(kernel: TestKernel) -> TestKernel:
    kernel.run(COUNTING)
    return kernel


@pytest.mark.parametrize("call_id", ["call_0", "../../x/y"])
def test_a_second_conversation_with_a_known_call_id_runs_its_own_call(counting: TestKernel, call_id: str) -> None:
    for number in (1, 2):
        counting.run(f"run = begin(asks({{'code': 'print({number})'}}, call_id={call_id!r})).wait(20)")
        assert counting.value("told(run)") == str(("complete", [(call_id, "success", str(number))]))


def test_two_conversations_at_the_same_time_may_have_the_same_call_ids(counting: TestKernel) -> None:
    """The first one's call runs while the second one's is laid down; each answers its own model."""
    counting.run(
        "first = begin(asks({'code': 'shared = [1]\\nprint(\"first\")'}))\n"
        "second = begin(asks({'code': 'print(\"second\")'}))\n"
        "first.wait(20), second.wait(20)"
    )
    assert counting.value("told(first)") == "('complete', [('call_0', 'success', 'first')])"
    assert counting.value("told(second)") == "('complete', [('call_0', 'success', 'second')])"
