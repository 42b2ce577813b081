"""A cell that is run again while it holds for its run, with no server, on each ipykernel that is taken."""

import pytest

from tests.notebooks.kernel import TestKernel
from tests.notebooks.page import Page

pytestmark = [pytest.mark.kernel, pytest.mark.soak]

WAITS = {"wait": "run.wait()", "await": "await run", "between cells": "None"}
FIRST = "first = run = ak.Agent(model=model).start('The first.'); held = "
AGAIN = "run = ak.Agent(model=ScriptedModel([say('fine')])).start('Again.')\nheld = "


@pytest.mark.parametrize("waits", WAITS.values(), ids=WAITS)
def test_it_gives_way_to_the_run_of_the_next_request(kernel: TestKernel, waits: str) -> None:
    page = Page(kernel, "The first.")
    first = kernel.send_cell("a", FIRST + waits, allow_stdin=True)
    page.open()
    page.event("approval_request")
    other = kernel.send_cell("b", "'the cell between'")
    again = kernel.send_cell("a", AGAIN + waits, allow_stdin=True)
    for cell in (first, other, again):
        assert kernel.result(cell).reply["status"] == "ok"
    assert kernel.result(other).value == "'the cell between'"
    assert kernel.value("first.wait(40).status, run.wait(40).status, run.text") == "('cancelled', 'complete', 'fine')"
    assert kernel.value("[(call.state, call.reason) for call in first.tool_calls]") == (
        "[('superseded', 'Its cell was run again.')]"
    )


def test_a_deleted_cell_ends_its_run_when_the_next_one_is_run(kernel: TestKernel) -> None:
    page = Page(kernel, "The first.")
    kernel.result(kernel.send_cell("a", FIRST + "None", allow_stdin=True))
    page.open()
    page.event("approval_request")
    kernel.result(kernel.send_cell("b", "1", deleted=["a"]))
    assert kernel.value("first.wait(40).status, first.tool_calls[0].reason") == "('cancelled', 'Its cell was deleted.')"
