"""Runs with no server that meet a limit, a budget or a failing model: what is interrupted, and how a person goes on."""

from collections.abc import Iterator

import pytest

from agent_kernel.testing import FakeOpenAI, call, say
from agent_kernel.testing.wire.reply import failure
from tests.notebooks.kernel import TestKernel
from tests.notebooks.page import Page

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

STATES = "[(one.state, one.reason) for one in run.tool_calls]"
SLOW = "async def slow() -> int:\n    'Be slow.'\n    print('so far'); await asyncio.sleep(60); return 1"
NOT_WELL = failure(400, "The model is not well.")
RUN = "run = ak.Agent().run('What is 6 * 7?')"
ENDED = "run.wait().status, run.done, run.text"
"""The record is shown just before the run is done."""


@pytest.mark.parametrize("asked", ["call('slow')", "call('run_shell', command='echo so far; sleep 60')"])
def test_a_tool_that_takes_too_long_is_interrupted_and_its_output_so_far_is_kept(
    scripted: TestKernel, asked: str
) -> None:
    scripted.run(SLOW)
    scripted.run(
        f"run = allowing({asked}, say('Done.'), tools=[slow], timeouts={{'slow': 2, 'run_shell': 2}}).run('Go.')"
    )
    assert scripted.value(STATES) == "[('error', 'Timed out after 2 s.')]"
    assert scripted.value("run.status, 'so far' in run.tool_calls[0].result") == "('complete', True)"


@pytest.fixture
def model() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as server:
        yield server


@pytest.fixture
def paid_kernel(kernel: TestKernel, model: FakeOpenAI) -> TestKernel:
    kernel.run(f"import os\nos.environ.update({model.environment()!r})\nimport agent_kernel as ak")
    return kernel


def fail(kernel: TestKernel, code: str) -> Page:
    """A run whose model fails while its cell waits, and the page that shows it."""
    page = Page(kernel)
    cell = kernel.send(code, allow_stdin=True)
    page.open()
    assert page.event("complete")["error"]["code"] == "LLM_ERROR"
    kernel.result(cell)
    return page


def test_a_failed_run_goes_on_where_it_was_and_its_cards_stay_until_it_ends(
    paid_kernel: TestKernel, model: FakeOpenAI
) -> None:
    model.add(call("run_python", code="x = 6 * 7"), NOT_WELL, call("run_python", code="x += 1"), say("It is 43."))
    page = fail(paid_kernel, "run = ak.Agent(policy='allow').run('What is 6 * 7?')")
    assert paid_kernel.value("run.status, run.done, run.error.code, x") == "('error', True, 'LLM_ERROR', 42)"
    assert page.records == []
    page.send(type="run_retry", run_id=page.event("run")["run_id"])
    assert "It is 43." in page.record()["data"]["text/plain"]
    assert [frame["type"] for frame in page.frames].count("complete") == 2
    assert paid_kernel.value(ENDED + ", x") == "('complete', True, 'It is 43.', 43)"
    roles = [one["role"] for one in model.requests[-1].body["messages"]]
    assert roles == ["system", "user", *["assistant", "tool"] * 2]


def test_where_no_page_shows_a_failed_run_its_record_takes_its_place(
    paid_kernel: TestKernel, model: FakeOpenAI
) -> None:
    model.add(NOT_WELL)
    paid_kernel.set_constant("agent_kernel.notebook.hosts.embedded", "CLIENT_SECONDS", 0.1)
    page = Page(paid_kernel)
    paid_kernel.run(RUN, allow_stdin=True)
    assert "The model is not well." in page.record()["data"]["text/plain"]
