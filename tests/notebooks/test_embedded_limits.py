"""Limits of calls and runs in a kernel with no server: a tool's timeout, a run's time, a run that repeats itself."""

import pytest

from tests.notebooks.kernel import TestKernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

SETUP = """from agent_kernel.testing import ScriptedModel, call, say
import agent_kernel as ak, asyncio, time
def agent(*turns, **options):
    return ak.Agent(model=ScriptedModel([*turns]), policy="allow", **options)
"""
STATES = "[(one.state, one.reason) for one in run.tool_calls]"
SLOW = "async def slow() -> int:\n    'Be slow.'\n    print('so far'); await asyncio.sleep(60); return 1"


@pytest.fixture
def scripted(kernel: TestKernel) -> TestKernel:
    kernel.run(SETUP)
    return kernel


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("slow", "call('slow')"),
        ("run_shell", "call('run_shell', command='echo so far; sleep 60')"),
    ],
)
def test_a_tool_that_takes_too_long_is_interrupted_and_its_output_so_far_is_kept(
    scripted: TestKernel, name: str, call: str
) -> None:
    scripted.run(SLOW)
    scripted.run(f"run = agent({call}, say('Done.'), tools=[slow], timeouts={{'{name}': 2}}).run('Go.')")
    assert scripted.value(STATES) == "[('error', 'Timed out after 2 s.')]"
    assert scripted.value("run.status, 'so far' in run.tool_calls[0].result") == "('complete', True)"


def test_a_run_without_a_page_whose_time_is_up_is_interrupted_and_ends(scripted: TestKernel) -> None:
    loop = "call('run_python', code='seen = 1\\nwhile True: pass')"
    scripted.run(f"run = agent({loop}, budget=ak.Budget(seconds=3)).run('Go.')")
    assert scripted.value("run.status, run.error.code, seen") == "('error', 'BUDGET_EXCEEDED', 1)"
    assert scripted.value(STATES) == """[('cancelled', "The run's time budget of 3 s is used up.")]"""
