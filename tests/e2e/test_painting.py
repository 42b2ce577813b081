"""Formulas in an answer paint over nothing that is beside it: neither the header nor the calls and their buttons."""

import nbformat
from playwright.sync_api import Page, expect

from agent_kernel.record import render_record
from tests.core.record.record_examples import a_call, a_run, printed, says
from tests.e2e.lab import LabServer, NotebookPage

TEX = [
    "x^2",
    r"\smash{\rlap{\kern-9em\rule{99em}{99em}}}",
    r"\begin{aligned}\MoveEqLeft[99] \colorbox{red}{Agent run: denied}\end{aligned}",
    r"\MTFlushSpaceAbove\MTFlushSpaceAbove \begin{array}{c} a \\ \colorbox{red}{b} \end{array}",
    r"\smashoperator{\sum_{aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}}",
    r"\mathrlap{\colorbox{red}{xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx}}",
    r"\begin{array}{c}" + r"\\".join(["x"] * 60) + r"\end{array}",
    r"\overset{\overset{\overset{\overset{a}{b}}{c}}{d}}{" + "e^{f^{g^{h^{i^{j^{k}}}}}}" + "}",
    r"\underbracket[9cm][9cm]{x}",
    r"\begin{multlined}[t][-99em] a \\ b \end{multlined}",
    r"\tag{\colorbox{red}{denied}} x",
    r"\vphantom{\Huge X}\Huge\colorbox{red}{X}\Huge\Huge X",
    r"\!" * 20 + r"\colorbox{red}{x}",
    r"\enclose{updiagonalstrike,roundedbox,longdiv}[mathcolor=red]{x}",
    r"\sideset{_a^b}{_c^d}\prod\nolimits^{\displaystyle\sum^{\displaystyle\sum^{x}}}",
    "x" * 4_000,
]
ANSWER = "\n\n".join([f"$${tex}$$\n\nIt is ${tex}$." for tex in TEX])
COVERED = """() => {
  const places = "[data-role=answer], .agent-record > div, .agent-record > details > div";
  const answers = [...document.querySelectorAll(places)];
  const root = document.querySelector(".agent-record, .ak-run");
  const outside = [...root.querySelectorAll("p, summary, pre, button, strong")]
    .filter((one) => !answers.some((answer) => answer.contains(one)));
  const covered = [];
  let points = 0;
  for (const one of outside) {
    one.scrollIntoView({ block: "center" });
    const box = one.getBoundingClientRect();
    for (let across = 1; across < 20; across += 1)
      for (const down of [0.25, 0.5, 0.75]) {
        const x = box.left + (box.width * across) / 20, y = box.top + box.height * down;
        const top = document.elementFromPoint(x, y);
        if (top === null) continue;
        points += 1;
        const answer = answers.find((each) => each.contains(top));
        if (answer) covered.push(`${one.tagName} ${one.textContent.slice(0, 40)} under ${top.tagName}`);
      }
  }
  return { points, covered };
}"""


def assert_nothing_is_covered(page: Page) -> None:
    page.locator("mjx-container").nth(10).wait_for(state="attached")
    found = page.evaluate(COVERED)
    assert found["points"] > 100
    assert found["covered"] == []


def test_an_answer_of_a_record_stays_in_its_place(lab: LabServer, page: Page) -> None:
    page.set_viewport_size({"width": 600, "height": 900})
    many = [
        a_call(1, arguments={"code": "print(1)"}, outputs=[printed("1\n")]),
        a_call(2, state="denied", reason="No."),
    ]
    html = render_record(a_run(), [says(ANSWER, *many), says(ANSWER)], many)["text/html"]
    cell = nbformat.v4.new_code_cell("%%agent\nHow did it go?")
    cell.outputs = [nbformat.v4.new_output("display_data", {"text/html": html, "text/plain": "Agent run"})]
    cell.execution_count = 1
    path = lab.write_notebook("painting.ipynb", [])
    saved = nbformat.read(path, as_version=4)
    saved.cells = [cell]
    nbformat.write(saved, path)
    notebook = NotebookPage(lab, page, path)
    expect(page.locator(".agent-record summary").first).to_be_visible()
    for summary in page.locator(".agent-record summary").all():
        if not summary.evaluate("one => one.parentElement.open"):
            summary.click()
    assert_nothing_is_covered(page)
    notebook.lab.close_kernels()
