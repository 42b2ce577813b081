"""Runs with no server whose model failed: a page tries them again, until something else is asked for."""

from collections.abc import Iterator

import pytest

from agent_kernel.testing import FakeOpenAI, call, say
from agent_kernel.testing.wire.reply import failure
from tests.notebooks.kernel import TestKernel
from tests.notebooks.page import Page

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

NOT_WELL = failure(400, "The model is not well.")
RUN = "run = ak.Agent().run('What is 6 * 7?')"
ENDED = "run.wait().status, run.done, run.text"
"""The record is shown just before the run is done."""


@pytest.fixture
def model() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as server:
        yield server


@pytest.fixture
def paid_kernel(kernel: TestKernel, model: FakeOpenAI) -> TestKernel:
    kernel.run(f"import os\nos.environ.update({model.environment()!r})\nimport agent_kernel as ak")
    return kernel


def fail(kernel: TestKernel, code: str = RUN) -> Page:
    """A run whose model fails while its cell waits, and the page that shows it."""
    page = Page(kernel)
    cell = kernel.send(code, allow_stdin=True)
    page.open()
    assert page.event("complete")["error"]["code"] == "LLM_ERROR"
    kernel.result(cell)
    return page


def ends(page: Page) -> int:
    return len([frame for frame in page.frames if frame["type"] == "complete"])


def run_id(page: Page) -> str:
    return str(page.event("run")["run_id"])


def test_it_goes_on_where_it_was_and_its_cards_stay_until_it_ends(paid_kernel: TestKernel, model: FakeOpenAI) -> None:
    model.add(call("run_python", code="x = 6 * 7"), NOT_WELL, call("run_python", code="x += 1"), say("It is 43."))
    page = fail(paid_kernel, "run = ak.Agent(policy='allow').run('What is 6 * 7?')")
    assert paid_kernel.value("run.status, run.done, run.error.code, x") == "('error', True, 'LLM_ERROR', 42)"
    assert page.records == []
    page.send(type="run_retry", run_id=run_id(page))
    assert "It is 43." in page.record()["data"]["text/plain"]
    assert ends(page) == 2
    assert paid_kernel.value(ENDED + ", x") == "('complete', True, 'It is 43.', 43)"
    assert [one["role"] for one in model.requests[-1].body["messages"]] == [
        "system",
        "user",
        *["assistant", "tool"] * 2,
    ]


def test_its_record_takes_its_place_once_something_else_is_asked_for(
    paid_kernel: TestKernel, model: FakeOpenAI
) -> None:
    model.add(NOT_WELL, say("Something else."))
    page = fail(paid_kernel, "agent = ak.Agent(); run = agent.run('What is 6 * 7?')")
    assert page.records == []
    assert paid_kernel.value("agent.run('And else?').text, run.status") == "('Something else.', 'error')"
    assert "The model is not well." in page.record()["data"]["text/plain"]


def test_where_no_page_shows_it_its_record_takes_its_place(paid_kernel: TestKernel, model: FakeOpenAI) -> None:
    model.add(NOT_WELL)
    paid_kernel.set_constant("agent_kernel.notebook.hosts.embedded", "CLIENT_SECONDS", 0.1)
    page = Page(paid_kernel)
    paid_kernel.run(RUN, allow_stdin=True)
    assert "The model is not well." in page.record()["data"]["text/plain"]
