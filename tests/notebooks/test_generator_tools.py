"""Tools that give their values one after another, and tools of LangChain that take more than the model gives."""

import pytest

from tests.notebooks.kernel import TestKernel
from tests.notebooks.page import Page

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

TOOLS = """
import asyncio, itertools
from typing import Annotated
import agent_kernel as ak
from agent_kernel.testing import ScriptedModel, call, say
from langchain_core.tools import InjectedToolCallId, tool as langchain_tool

def result(tool, **arguments):
    name = getattr(tool, "__name__", None) or tool.declaration.name
    ak.Agent(model=ScriptedModel([call(name, **arguments), say("Done.")]), tools=[tool]).run("Go.")
    one = ak.last_run().tool_calls[0]
    return one.state, one.result

@ak.tool(approval="allow")
def rows(n: int):
    "Give rows."
    for number in range(n):
        yield {"row": number}

@ak.tool(approval="allow")
async def later(n: int):
    "Give rows later."
    for number in range(n):
        await asyncio.sleep(0)
        yield f"row {number}"

@ak.tool(approval="allow")
def returns():
    "Returns."
    yield "one"
    return "all"

@ak.tool(approval="allow")
def endless():
    "Never ends."
    yield from itertools.count()

@langchain_tool
def named(x: int, tool_call_id: Annotated[str, InjectedToolCallId]) -> str:
    "Say what it is called."
    return f"{x} {tool_call_id}"

"""


@pytest.fixture(scope="module")
def tools(shared_kernel: TestKernel) -> TestKernel:
    shared_kernel.run(TOOLS)
    return shared_kernel


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("rows, n=2", '{"row": 0}\n{"row": 1}'),
        ("later, n=2", "row 0\nrow 1"),
        ("returns", "one\nall"),
    ],
)
def test_the_values_of_a_generator_are_the_result_one_a_line(tools: TestKernel, call: str, said: str) -> None:
    assert tools.value(f"result({call})") == repr(("success", said))


def test_a_generator_without_an_end_is_ended_and_says_so(tools: TestKernel) -> None:
    found = tools.value("result(endless)")
    assert found.startswith("('success'")
    assert "more than 10,000 values. It was ended here." in found


def test_a_generator_is_shown_as_it_goes_and_can_be_stopped(tools: TestKernel) -> None:
    page = Page(tools)
    tools.run(
        "cleared = []\n"
        "@ak.tool(approval='allow')\n"
        "async def slow():\n"
        "    'Slow.'\n"
        "    try:\n"
        "        yield 'going'\n"
        "        await asyncio.sleep(60)\n"
        "    finally:\n"
        "        cleared.append(True)\n"
        "run = ak.Agent(model=ScriptedModel([call('slow'), say('Done.')]), tools=[slow]).start('Go.')",
        allow_stdin=True,
    )
    page.open()
    assert page.event("tool_output")["output"]["text"] == "going\n"
    tools.manager.interrupt_kernel()
    assert tools.value("run.wait(20).status, [one.state for one in run.tool_calls], cleared") == (
        "('cancelled', ['cancelled'], [True])"
    )


def test_a_langchain_tool_is_told_the_calls_own_id(tools: TestKernel) -> None:
    found = tools.value("result(ak.tool(named, approval='allow', read_only=True), x=1)")
    assert found == repr(("success", f"1 {tools.value('ak.last_run().tool_calls[0].tool_call_id')[1:-1]}"))
