"""What a person reads while they decide, and what is kept of it: formulas, money, code, tables and plots."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from playwright.sync_api import Locator, Page, expect

from agent_kernel.record import render_record
from agent_kernel.testing import call, calls, say
from tests.core.record.record_examples import a_call, a_run, bare, displayed, printed, says
from tests.e2e.conftest import OpenNotebook
from tests.e2e.lab import LabServer, NotebookPage
from tests.e2e.model import Gate, WrittenModel
from tests.programs import wait_until

TABLE = "import pandas as pd\npd.DataFrame({'week': [46, 47], 'orders': [312, 298]})"
ANSWER = (
    "It fell from $5 to $10, so $x^2$ and \\(y_1\\) hold:\n\n$$\n\\frac{a}{b}\n+ c\n$$\n\n"
    "Type `\\alpha` or `$x$`, in C:\\new\\table.\n\n```python\nprice = '$5 to $10'\n```\n"
)
TABLE_HTML = '<table class="dataframe"><tr><td>46</td><td>$312</td></tr></table>'
CELLS = ["%load_ext agent_kernel", "%%agent --policy allow\nHow did it go?"]
ASKING = ["%load_ext agent_kernel", "%%agent\nHow did it go?"]
FORMULAS = 3


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


def test_formulas_are_typeset_and_money_is_not_live_and_kept(
    open_notebook: OpenNotebook, model: WrittenModel, end: Gate
) -> None:
    assert_read_well_live_and_kept(open_notebook(CELLS), model, end)


def test_in_notebook_7_as_well(
    shared_model: WrittenModel, model: WrittenModel, end: Gate, page: Page, tmp_path: Path
) -> None:
    with LabServer(tmp_path / "lab", shared_model.server.environment(), app="notebook") as server:
        notebook = NotebookPage(server, page, server.write_notebook("reading.ipynb", CELLS))
        assert_read_well_live_and_kept(notebook, model, end)


def assert_read_well_live_and_kept(notebook: NotebookPage, model: WrittenModel, end: Gate) -> None:
    model.says(calls(call("run_python", call_id="c1", code=TABLE), text=ANSWER), end)
    notebook.run_through(1)
    notebook.wait_for_state("success")
    assert_reads_well(notebook.page.locator(".ak-run [data-role=answer]").first)
    end.open()
    expect(notebook.record()).to_be_visible()
    assert_reads_well(notebook.record().locator("[data-role=answer]"))
    assert "mjx" not in notebook.save().cells[1].outputs[0]["data"]["text/html"]


def test_what_earlier_steps_showed_is_in_view_while_the_next_asks(
    open_notebook: OpenNotebook, model: WrittenModel
) -> None:
    plot = (
        "import matplotlib.pyplot as plt\nfigure, axes = plt.subplots(figsize=(4, 2))\naxes.plot([1, 3, 2])\nplt.show()"
    )
    model.says(
        call("run_python", call_id="c1", code="print('312 duplicates')"),
        calls(call("run_python", call_id="c2", code=TABLE), call("run_python", call_id="c3", code=plot)),
        call("run_python", call_id="c4", code="del orders"),
        say("Left as it is."),
    )
    notebook = open_notebook(ASKING)
    notebook.run_through(1)
    notebook.press("Approve")
    notebook.wait_for_state("awaiting_approval", card=1)
    expect(notebook.card(0)).to_contain_text("312 duplicates")
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
    expect(notebook.record()).to_be_visible()
    # Beside the record, under no fold.
    results = notebook.page.locator(".jp-OutputArea-child:not(:has(.agent-record))")
    expect(results.locator("table")).to_be_visible()
    expect(results.locator("img")).to_be_visible()


LONG = """import pathlib, time
for n in range(300): print('line', n)
while not pathlib.Path('seen').exists(): time.sleep(0.02)"""
PIXELS_BELOW = "stream => stream.scrollHeight - stream.clientHeight - stream.scrollTop"


def test_a_long_output_shows_its_end_in_the_smaller_window_too_that_it_has_once_the_next_step_asks(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    model.says(call("run_python", code=LONG.replace("'seen'", repr(str(seen)))), call("run_python", code="2"))
    notebook = open_notebook(ASKING)
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval", 0)
    notebook.card(0).get_by_role("button", name="Approve", exact=True).click()
    stream = page.locator(".ak-stream")
    expect(stream).to_contain_text("line 299")
    large = stream.evaluate("stream => stream.clientHeight")
    wait_until(lambda: stream.evaluate(PIXELS_BELOW) < 8, "the end of the output")
    seen.touch()
    notebook.wait_for_state("awaiting_approval", 1)
    page.wait_for_function("([large]) => document.querySelector('.ak-stream').clientHeight < large", arg=[large])
    wait_until(lambda: stream.evaluate(PIXELS_BELOW) < 8, "the end of the output")


def test_copy_puts_the_code_on_the_clipboard(open_notebook: OpenNotebook, model: WrittenModel) -> None:
    code = "orders = orders.drop_duplicates()\norders.shape"
    model.says(calls(call("run_python", call_id="c1", code=code), text=ANSWER), say("Done."))
    notebook = open_notebook(ASKING)
    notebook.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval")
    notebook.press("Copy")
    expect(notebook.card().get_by_text("Copied")).to_be_visible()
    assert notebook.page.evaluate("navigator.clipboard.readText()") == code
    notebook.page.locator(".ak-answer").get_by_role("button", name="Copy", exact=True).click()
    notebook.page.wait_for_function("navigator.clipboard.readText().then(text => text.startsWith('price = '))")
    notebook.press("Approve")
    expect(notebook.record()).to_be_visible()


def test_a_prompt_is_said_where_no_cell_says_it(open_notebook: OpenNotebook, model: WrittenModel) -> None:
    model.says(say("By 5 %."), say("By 6 %."))
    words = "How much" + " is it?"
    cells = [
        "%load_ext agent_kernel",
        "%%agent\nWhy so much?",
        f"import agent_kernel as ak\nask = {words[:8]!r} + {words[8:]!r}",
    ]
    notebook = open_notebook([*cells, "run = ak.Agent().start(ask)"])
    for cell in range(4):
        notebook.run(cell)
    expect(notebook.record()).to_have_count(2)
    expect(notebook.record().nth(0)).not_to_contain_text("Why so much?")
    assert "Why so much?" not in str(notebook.save().cells[1].outputs)
    expect(notebook.record().nth(1).locator("blockquote")).to_have_text(words)


def test_the_record_of_a_notebook_that_is_not_trusted_reads_as_well(lab: LabServer, page: Page) -> None:
    run = a_run(prompt="How did it go?")
    many = [
        a_call(
            1,
            arguments={"code": "print('$1 and $2')"},
            outputs=[printed("$1 and $2\n"), displayed(text_html=TABLE_HTML)],
        )
    ]
    html = render_record(run, [says("First.", *many), says(ANSWER)], many)["text/html"]
    cell = nbformat.v4.new_code_cell("%%agent\nHow did it go?")
    cell.outputs = [nbformat.v4.new_output("display_data", {"text/html": html, "text/plain": "Agent run"})]
    cell.execution_count = 1
    path = lab.write_notebook("not-trusted.ipynb", [])
    saved = nbformat.read(path, as_version=4)
    saved.cells = [cell]
    nbformat.write(saved, path)
    notebook = NotebookPage(lab, page, path)
    record = page.locator(".agent-record")
    assert record.get_attribute("data-agent-record") is None, "JupyterLab trusts it"
    assert_reads_well(record.locator("div").first)
    for summary in record.locator("summary").all():
        summary.click()
    looks = record.locator("pre").evaluate_all(
        "all => all.map(pre => { const s = getComputedStyle(pre); return [s.backgroundColor, s.borderLeftWidth]; })"
    )
    code, printed_text = looks[1], looks[2]
    assert code[0] == "rgba(128, 128, 128, 0.12)"
    assert printed_text[1] == "3px"
    assert code[0] != printed_text[0]
    expect(record.locator("table")).to_be_visible()
    notebook.lab.close_kernels()


def test_the_saved_cell_of_a_pasted_or_reloaded_run_looks_like_the_others(
    open_notebook: OpenNotebook, model: WrittenModel
) -> None:
    model.says(call("run_python", call_id="c1", code=TABLE), say("There."))
    notebook = open_notebook(ASKING)
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval")
    notebook.command("notebook:copy-cell")
    notebook.command("notebook:paste-cell-below")
    notebook.save()
    notebook.reload()
    notebook.wait_for_state("awaiting_approval")
    notebook.press("Approve")
    expect(notebook.page.locator(".ak-run[data-status=complete], .agent-record").first).to_be_visible()
    wait_until(lambda: len(records_of(notebook)) == 2, "the record in both cells")
    # The results stand once as outputs of their own: the copy has them in its record, beside the answer.
    first, second = (bare(data["text/html"]) for data in records_of(notebook))
    answers = [text.partition("<details>")[0] for text in (first, second)]
    assert answers[1].startswith(answers[0].rstrip())
    assert "There." in answers[0]
    assert "How did it go?" not in first + second
    assert [("<table" in answer) for answer in answers] == [False, True]


def records_of(notebook: NotebookPage) -> list[dict[str, Any]]:
    outputs = [output for cell in notebook.save().cells for output in cell.get("outputs", [])]
    bundles = [output["data"] for output in outputs if "data" in output]
    return [dict(data) for data in bundles if 'data-agent-record="run' in data.get("text/html", "")]
