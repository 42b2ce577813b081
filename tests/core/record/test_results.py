"""What a run has shown stands in the notebook as outputs of its own; a record that stands alone has copies."""

import json
from typing import Any

import nbformat
import pytest

from agent_kernel.protocol.views import OutputView, ToolCallView
from agent_kernel.protocol.vocabulary import RESULT_MARK as MARK
from agent_kernel.record import Placed, place_record, render_record
from agent_kernel.record.results import MOST_RESULTS, WIDGET_VIEW
from tests.core.record.record_examples import PNG, a_call, a_run, displayed, printed, raised, says
from tests.core.record.test_safety import assert_harmless

PLOTLY = "application/vnd.plotly.v1+json"
TABLE = '<table border="1" class="dataframe"><tbody><tr><td>1</td></tr></tbody></table>'
SVG = '<svg viewBox="0 0 9 9"><circle r="4"/></svg>'


def bundle(**data: Any) -> OutputView:
    """As `displayed`, for MIME types with other characters: `bundle(**{PLOTLY: ...})`."""
    return OutputView(kind="display", data=data)


def placed(*calls: ToolCallView) -> Placed:
    return place_record(a_run(), [says("", *calls), says("There it is.")], calls)


def alone(*calls: ToolCallView) -> dict[str, str]:
    return render_record(a_run(), [says("", *calls), says("There it is.")], calls)


def test_a_chart_stands_below_with_all_its_mime_types_and_the_record_has_no_copy() -> None:
    chart = {PLOTLY: {"data": [{"y": [1, 2]}]}, "text/html": "<div id='p'></div><script>draw()</script>"}
    output = OutputView(kind="display", data=chart, metadata={PLOTLY: {"config": 1}})
    shown = placed(a_call(outputs=[printed("drawn"), output]))
    drawn, result = shown.results
    assert drawn.data == {"text/plain": "drawn"}
    assert result.data == chart
    assert result.metadata == {PLOTLY: {"config": 1}, MARK: {"run": "run_1", "call": 1}}
    for text in shown.record.values():
        assert "draw()" not in text
        assert "Shown with the answer: text, Plotly chart." in text
        assert text.index("There it is.") < text.index("1 step: 1 done")


def test_what_failed_calls_showed_stays_in_the_transcript() -> None:
    failed = a_call(1, outputs=[displayed(image_png=PNG, text_plain="half"), raised("ValueError: no")], state="error")
    shown = placed(failed, a_call(2, outputs=[printed("42")]))
    assert [result.data for result in shown.results] == [{"text/plain": "42"}]
    assert PNG in shown.record["text/html"]
    assert "(run_python): Failed, ValueError, approved by you\n2." in shown.record["text/plain"]


def test_what_calls_printed_stays_in_sight_in_the_order_in_which_it_came() -> None:
    frame = displayed(text_html=TABLE, text_plain="1")
    one = a_call(1, outputs=[printed("2 rows\n"), frame, printed("\x1b[31mred\x1b[0m\n"), displayed(text_plain="42")])
    silent = a_call(2)
    said = "walls: none (off)\na.csv\nExit code: 1"
    command = a_call(3, "run_shell", {"command": "ls"}, outputs=[printed("a.csv\n")], result=said)
    messages, calls = [says("", one, silent), says("", command), says("There it is.")], [one, silent, command]
    data = [result.data for result in place_record(a_run(), messages, calls).results]
    texts = ["2 rows", "1", "\x1b[31mred\x1b[0m", "42", "a.csv\nExit code: 1"]
    assert [shown["text/plain"] for shown in data] == texts
    assert [set(shown) - {"text/plain"} for shown in data] == [set(), {"text/html"}, set(), set(), set()]
    shown = render_record(a_run(), messages, calls)
    for text in shown.values():
        above, _, _ = text.partition("3 steps: 3 done")
        at = [above.index(word) for word in ("There it is.", "2 rows", "red", "42", "a.csv")]
        assert at == sorted(at)
        assert "\x1b" not in text
    assert '<span style="color: #e75c58">red</span>' in shown["text/html"]


def test_a_text_of_more_than_30_lines_is_folded_and_a_shorter_one_is_not() -> None:
    short, long = "\n".join(map(str, range(30))), "\n".join(["\x1b[1;38;5;196m0", *map(str, range(1, 31))])
    assert placed(a_call(outputs=[printed(short)])).results[0].data == {"text/plain": short}
    [shown] = placed(a_call(outputs=[printed(long)])).results
    assert shown.data["text/plain"] == long
    folded = shown.data["text/html"]
    assert folded.startswith('<details class="agent-text"><summary>Output, 31 lines</summary>\n<pre tabindex="0"')
    assert '<span style="font-weight: bold; color: #ff0000">0\n1\n' in folded
    assert_harmless(folded)
    assert folded in alone(a_call(outputs=[printed(long)]))["text/html"].partition("1 step")[0]


def test_a_widget_stands_below_also_that_of_a_failed_call_and_a_record_alone_has_its_text() -> None:
    view = {"version_major": 2, "model_id": "0" * 32}
    bar = bundle(**{WIDGET_VIEW: view, "text/plain": "100%|####| 10/10"})
    table = bundle(**{WIDGET_VIEW: view, "text/html": TABLE, "text/plain": "Grid()"})
    failed = a_call(2, outputs=[displayed(image_png=PNG), table], state="error")
    calls = [a_call(1, outputs=[bar, bundle()]), failed]
    shown = placed(*calls)
    assert [result.data for result in shown.results] == [bar.data, table.data]
    for text in shown.record.values():
        assert (text.count("Shown with the answer: widget."), "100%" in text) == (2, False)
    html = alone(*calls)["text/html"]
    assert ">100%|####| 10/10\n(A widget: only this text of it is kept.)</pre>" in html
    assert WIDGET_VIEW not in html


def test_where_there_is_not_room_for_all_the_last_ones_stand_below() -> None:
    plots = [a_call(number, outputs=[displayed(text_html=f"<i>{number}</i>")]) for number in range(MOST_RESULTS + 3)]
    shown = placed(*plots)
    assert len(shown.results) == MOST_RESULTS
    assert shown.results[0].data == {"text/html": "<i>3</i>"}
    assert shown.results[-1].metadata[MARK]["call"] == MOST_RESULTS + 3
    for text in shown.record.values():
        assert text.count("Not shown: HTML. The outputs of this run are too many or too large.") == 3
    assert "<i>2</i>" in shown.record["text/html"]


@pytest.mark.parametrize(
    "data",
    [
        {"text/html": 5, "image/png": None, "application/json": {"a": [1, None]}},
        {"text/html": ["a", 5], "application/vnd.odd+json": ["a", 5]},
        {f"application/x-{number}": "1" for number in range(1_000)},
        {"": "1", "no type": "1", "a/b\nc/d": "1", "../../x": "1", "text/html": "<b>1</b>", "x" * 1_000: "1"},
        {"application/json": {"\ud800": "\udc00"}, "text/html": "\ud800"},
        {"text/html": "<script>alert(1)</script>", "application/javascript": "alert(1)"},
    ],
)
def test_a_notebook_with_odd_bundles_stays_one_that_can_be_saved(data: dict[str, Any]) -> None:
    output = OutputView(kind="display", data=data, metadata={"x": "y" * 1_000_000})
    shown = placed(a_call(outputs=[output]))
    outputs = [result.output for result in shown.results]
    cell = {"cell_type": "code", "id": "a", "source": "", "metadata": {}, "execution_count": 1}
    notebook = {"cells": [cell | {"outputs": outputs}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    nbformat.validate(nbformat.from_dict(notebook))
    nbformat.writes(nbformat.from_dict(notebook)).encode()
    assert all(len(result.data) <= 20 and set(result.metadata) == {MARK} for result in shown.results)
    assert_harmless(shown.record["text/html"])
    json.dumps(shown.record).encode()


def test_json_that_is_nested_without_end_is_not_kept() -> None:
    deep: Any = []
    for _ in range(50_000):
        deep = [deep]
    data = {"application/json": deep, "text/plain": "deep"}
    output = OutputView.model_construct(kind="display", name=None, text="", data=data, metadata={}, display_id=None)
    shown = placed(a_call().model_copy(update={"outputs": [output]}))
    assert shown.results == ()
    assert "Not shown: JSON." in shown.record["text/html"]


def test_a_formula_is_left_to_the_page_to_typeset() -> None:
    latex = "\\begin{align}x &= 1\\end{align}"
    shown = alone(a_call(outputs=[displayed(text_latex=latex, text_plain="<Math>")]))
    formula = "$$\\begin{align}x &amp;= 1\\end{align}$$"
    assert f"<p>{formula}</p>" in shown["text/html"].partition("<details")[0]


@pytest.mark.parametrize("latex", ["x^2", "$\\href{javascript:alert(1)}{x}$"])
def test_what_is_no_plain_formula_is_shown_as_it_is_written(latex: str) -> None:
    shown = alone(a_call(outputs=[displayed(text_latex=latex, text_plain="<Math>")]))
    above = shown["text/html"].partition("<details")[0]
    assert f">{latex}</pre>" in above or f"<code>{latex}</code>" in above
    assert_harmless(shown["text/html"])
