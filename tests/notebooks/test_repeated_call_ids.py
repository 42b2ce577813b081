"""Several servers count a model's call ids anew in each conversation. In one kernel none is taken for another's."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.notebooks.kernel import TestKernel
from tests.notebooks.page import Page

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

COUNTING = """
from agent_kernel.testing import ScriptedModel, call, calls, say
import agent_kernel as ak

def asks(*turns, call_id="call_0", tool="run_python"):
    return ScriptedModel([*(call(tool, call_id=call_id, **turn) for turn in turns), say("done")])

def begin(model, **options):
    return ak.Agent(model=model, policy="allow", **options).start("go")

def told(run):
    return run.status, [(one.tool_call_id, one.state, one.result) for one in run.tool_calls]
"""


@pytest.fixture
def counting(kernel: TestKernel) -> TestKernel:
    kernel.run(COUNTING)
    return kernel


@pytest.mark.parametrize("call_id", ["call_0", "functions.run_python:0", "../../x/y", "0", "constructor"])
def test_a_second_conversation_with_a_known_call_id_runs_its_own_call(counting: TestKernel, call_id: str) -> None:
    for number in (1, 2):
        counting.run(f"run = begin(asks({{'code': 'print({number})'}}, call_id={call_id!r})).wait(20)")
        assert counting.value("told(run)") == f"('complete', [({call_id!r}, 'success', '{number}')])"
