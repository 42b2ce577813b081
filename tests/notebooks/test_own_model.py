"""A model that is a Python object of the user's: what goes wrong in it is told as theirs, and it can be stopped."""

import pytest

from tests.notebooks.kernel import TestKernel
from tests.notebooks.page import Page

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

OWN = """import agent_kernel as ak, asyncio
from agent_kernel.models.base import ModelTurn, RequestedCall, TextDelta
class Own:
    name, recorded = "mine", False
    {stream}
run = ak.Agent(model=Own(), policy="allow").start("Say something.")
"""


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        ("async def stream(self, request): return 'Hello'", "its `stream` returns a 'coroutine', not"),
        ("async def stream(self, request): yield TextDelta('Hello')", "ends without a ModelTurn, which is its last"),
        ("async def stream(self, request): yield 'Hello'", "its `stream` yields a 'str'. It yields TextDelta, "),
        ("async def stream(self, request): yield TextDelta(3)", "yields a TextDelta whose content is a 'int'"),
        ("async def stream(self, request):\n        yield TextDelta('')\n        {}['text']", "  KeyError: 'text'\n"),
        (
            "async def stream(self, request): yield ModelTurn('', tool_calls=({},))",
            "with a 'dict' among its tool_calls",
        ),
    ],
)
def test_a_model_object_that_is_no_model_is_told_with_what_is_wrong(kernel: TestKernel, stream: str, said: str) -> None:
    kernel.run(OWN.format(stream=stream))
    assert kernel.value("run.wait().status, run.error.code") == "('error', 'LLM_ERROR')"
    message = kernel.run("print(run.error.message)").streams()
    assert message.startswith("Your model object failed: ")
    assert said in message
    assert "Mend it and run the cell again" in message


@pytest.mark.parametrize("goes_on", ["await asyncio.Event().wait(); yield", "while True: yield TextDelta('')"])
def test_a_model_object_that_never_ends_can_be_stopped(kernel: TestKernel, goes_on: str) -> None:
    page = Page(kernel)
    cell = kernel.send(OWN.format(stream=f"async def stream(self, request):\n        {goes_on}"), allow_stdin=True)
    page.open()
    page.until(lambda: any(frame["type"] == "run" and frame["run"]["status"] == "running" for frame in page.frames))
    page.send(type="cancel", run_id=page.event("run")["run_id"])
    kernel.result(cell)
    assert kernel.value("run.wait().status") == "'cancelled'"


def test_a_model_object_that_makes_a_recording_hears_what_was_decided(kernel: TestKernel) -> None:
    turn = "yield ModelTurn('', tool_calls=(RequestedCall('', 'run_python', '{\"code\": \"1\"}'),))"
    stream = f"""async def stream(self, request):
        if request.messages[-1]["role"] == "tool": yield ModelTurn("Done.")
        else: {turn}
    async def record_decision(self, decision, *, prompt): heard.append((decision.approved, prompt))"""
    own = OWN.format(stream=stream).replace(
        'policy="allow").start("Say something."', 'policy="ask").start("Go.", [True]'
    )
    kernel.run(f"heard = []\n{own}")
    assert kernel.value("run.wait().status, heard") == "('complete', [(True, 'Go.')])"
