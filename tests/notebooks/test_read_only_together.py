"""Calls of asynchronous tools that are declared to read only run together; all others one after another."""

import os
from collections.abc import Iterator

import pytest

from tests.notebooks.kernel import TestKernel
from tests.notebooks.page import Page

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

TOOLS = """
import asyncio, sys, threading
import agent_kernel as ak
from IPython.display import display
from agent_kernel.testing import ScriptedModel, call, calls, say

running, most, cleared = set(), [0], []

async def hold(name, beside):
    running.add(name)
    most[0] = max(most[0], len(running))
    changed.set()
    try:
        async with asyncio.timeout(20):
            while most[0] < beside:
                await changed.wait()
                changed.clear()
                await asyncio.sleep(0)
    finally:
        running.discard(name)

def tool(read_only):
    @ak.tool(approval="allow", read_only=read_only)
    async def look(name: str, beside: int = 1) -> str:
        "Look."
        print("in", name)
        sys.stderr.write(f"err {name}\\n")
        display({"text/plain": f"shown {name}"}, raw=True)
        thread = threading.Thread(target=print, args=("thread", name))
        thread.start()
        await hold(name, beside)
        await asyncio.to_thread(thread.join)
        print("out", name)
        return f"saw {name}"
    return look

def begin(names, beside, read_only=True, **options):
    global changed
    running.clear(); most[0] = 0
    changed = asyncio.Event()
    look = tool(read_only)
    model = ScriptedModel([calls(*(call("look", name=name, beside=beside) for name in names)), say("Done.")])
    return ak.Agent(model=model, tools=[look], **options).start("Go.")
"""


@pytest.fixture(scope="module")
def shared() -> Iterator[TestKernel]:
    kernel = TestKernel(dict(os.environ))
    kernel.run(TOOLS)
    yield kernel
    kernel.close()


WAITS = {"in a cell that waits": "run.wait(30)", "in a cell that awaits": "await run", "between cells": ""}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_four_calls_that_read_run_together_and_each_has_its_own_outputs(shared: TestKernel, wait: str) -> None:
    shared.run(f"run = begin('abcd', 4)\n{wait}")
    while shared.value("run.status") == "'running'":
        pass
    assert shared.value("run.status, most[0]") == "('complete', 4)"
    for number, name in enumerate("abcd"):
        assert shared.value(f"run.tool_calls[{number}].state") == "'success'"
        result = shared.value(f"run.tool_calls[{number}].result")
        for text in ("in {}", "err {}", "thread {}", "out {}", "shown {}", "saw {}"):
            assert text.format(name) in result
        others = [other for other in "abcd" if other != name]
        assert not any(f"in {other}" in result or f"shown {other}" in result for other in others)


def test_calls_that_may_change_something_run_one_after_another(shared: TestKernel) -> None:
    shared.run("run = begin('abc', 1, read_only=False)\nrun.wait(30)")
    assert shared.value("run.status, most[0]") == "('complete', 1)"


def test_what_the_user_prints_afterwards_is_the_users(shared: TestKernel) -> None:
    shared.run("run = begin('ab', 2)\nrun.wait(30)")
    assert shared.run("print('mine')").streams() == "mine\n"


def test_one_of_them_fails_alone(shared: TestKernel) -> None:
    shared.run(
        "@ak.tool(approval='allow', read_only=True)\n"
        "async def divide(by: int) -> float:\n"
        "    'Divide.'\n"
        "    await asyncio.sleep(0.01)\n"
        "    return 1 / by\n"
        "model = ScriptedModel([calls(*(call('divide', by=by) for by in (1, 0, 2))), say('Done.')])\n"
        "run = ak.Agent(model=model, tools=[divide]).start('Go.').wait(20)"
    )
    assert shared.value("[one.state for one in run.tool_calls]") == "['success', 'error', 'success']"


def test_cancel_ends_one_of_them_and_the_others_go_on(shared: TestKernel) -> None:
    page = Page(shared)
    shared.run("run = begin('ab', 3)", allow_stdin=True)
    page.open()
    ids = [page.event("tool_output")["tool_call_id"], ""]
    page.send(type="tool_cancel", tool_call_id=ids[0])
    assert page.event("tool_complete")["status"] == "cancelled"
    shared.manager.interrupt_kernel()
    assert shared.value("run.wait(20).status, sorted(one.state for one in run.tool_calls)") == (
        "('cancelled', ['cancelled', 'cancelled'])"
    )


def test_the_kernels_interrupt_ends_them_all(shared: TestKernel) -> None:
    page = Page(shared)
    shared.run("run = begin('abc', 9)", allow_stdin=True)
    page.open()
    page.event("tool_output")
    shared.manager.interrupt_kernel()
    assert shared.value("run.wait(20).status, {one.state for one in run.tool_calls}") == "('cancelled', {'cancelled'})"
    assert shared.value("'alive'") == "'alive'"
