"""What a person reads while they decide, and what is kept of it: formulas, money, code, tables and plots."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect

from agent_kernel.testing import call, calls, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.model import Gate, WrittenModel

TABLE = "import pandas as pd\npd.DataFrame({'week': [46, 47], 'orders': [312, 298]})"
ANSWER = (
    "It fell from $5 to $10, so $x^2$ and \\(y_1\\) hold:\n\n$$\n\\frac{a}{b}\n+ c\n$$\n\n"
    "Type `\\alpha` or `$x$`, in C:\\new\\table.\n\n```python\nprice = '$5 to $10'\n```\n"
)
ASKING = ["%load_ext agent_kernel", "%%agent\nHow did it go?"]
FORMULAS = 3
TEXT_LEFT = """element => {
  const text = document.createRange();
  text.selectNodeContents(element);
  return text.getBoundingClientRect().left;
}"""


@pytest.fixture
def end(model: WrittenModel) -> Iterator[Gate]:
    gate = Gate(say(ANSWER))
    yield gate
    gate.open()


def assert_reads_well(answer: Locator) -> None:
    expect(answer.locator("mjx-container")).to_have_count(FORMULAS)
    expect(answer).to_contain_text("It fell from $5 to $10, so")
    expect(answer).to_contain_text("C:\\new\\table.")
    expect(answer.locator("p code")).to_have_text(["\\alpha", "$x$"])
    expect(answer.locator("pre code")).to_have_text("price = '$5 to $10'")


def test_answers_are_typeset_and_what_earlier_steps_showed_is_in_view_while_the_next_asks(
    open_notebook: OpenNotebook, model: WrittenModel, end: Gate
) -> None:
    plot = (
        "import matplotlib.pyplot as plt\nfigure, axes = plt.subplots(figsize=(4, 2))\naxes.plot([1, 3, 2])\nplt.show()"
    )
    model.says(
        call("run_python", call_id="c1", code="print('312 duplicates')"),
        calls(call("run_python", call_id="c2", code=TABLE), call("run_python", call_id="c3", code=plot), text=ANSWER),
        call("run_python", call_id="c4", code="del orders"),
        end,
    )
    notebook = open_notebook(ASKING)
    notebook.run_through(1)
    notebook.press("Approve")
    notebook.wait_for_state("awaiting_approval", card=1)
    expect(notebook.card(0)).to_contain_text("312 duplicates")
    assert_reads_well(notebook.page.locator(".ak-run [data-role=answer]").first)
    notebook.press("Approve", card=1)
    notebook.wait_for_state("success", card=1)
    notebook.press("Approve", card=2)
    notebook.wait_for_state("awaiting_approval", card=3)
    expect(notebook.card(0)).to_contain_text("312 duplicates")
    expect(notebook.card(1).locator("table")).to_be_visible()
    expect(notebook.card(2).locator("img")).to_be_visible()
    expect(notebook.card(1).locator(".ak-head")).to_have_attribute("aria-expanded", "false")
    notebook.press("Deny", card=3)
    notebook.card(3).get_by_role("button", name="Deny", exact=True).last.click()
    end.open()
    expect(notebook.record()).to_be_visible()
    assert_reads_well(notebook.record().locator("[data-role=answer]"))
    assert "mjx" not in notebook.save().cells[1].outputs[0]["data"]["text/html"]
    # Beside the record, under no fold.
    results = notebook.page.locator(".jp-OutputArea-child:not(:has(.agent-record))")
    expect(results.locator("table")).to_be_visible()
    expect(results.locator("img")).to_be_visible()
    expect(results.get_by_text("312 duplicates")).to_be_visible()
    printed, answer = results.get_by_text("312 duplicates"), notebook.record().locator("[data-role=answer] p").first
    assert abs(answer.evaluate(TEXT_LEFT) - printed.evaluate(TEXT_LEFT)) < 1, "the record is in line with its outputs"
    # The administration, with the time by the reader's clock.
    line = notebook.record().locator("p", has=notebook.page.locator("time"))
    expect(line).to_contain_text("asked before acting")
    expect(line.locator("time")).to_have_attribute("title", re.compile(r"\d\d:\d\d UTC$"))
    expect(line.locator("time")).not_to_contain_text("UTC")
