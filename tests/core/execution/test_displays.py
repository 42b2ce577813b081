"""What the user saw of a call's outputs, and what the model is told of them."""

import re
from typing import Any

import pytest

from agent_kernel.execution.long_tables import LONG_CHARACTERS, SHOWN_ROWS, WHOLE
from agent_kernel.execution.output_reader import END_CHARACTERS, LIVE_CHARACTERS, OutputReader
from agent_kernel.protocol.views import OutputView

LARGE = "A" * 20_000_000
UNSEEN = "You are given no picture of it.]"
CHART = "[application/vnd.plotly.v1+json: the notebook draws it for the user where it can."
PAGE = f"[text/html: the notebook draws it for the user where it can. {UNSEEN}"
WIDGET = "[A widget, which the user can use where the notebook shows widgets. This text is how it was at the end.]"


class Reading:
    """A reader, and what clients have of its outputs since they were cleared."""

    def __init__(self) -> None:
        self.outputs: list[OutputView] = []
        self.reader = OutputReader(self._take)

    def _take(self, output: Any) -> None:
        assert isinstance(output, OutputView)
        self.outputs = [] if output.kind == "clear" else [*self.outputs, output]

    def prints(self, text: str) -> None:
        self.reader.read("stream", {"name": "stdout", "text": text})

    def fails(self) -> None:
        self.reader.read("error", {"ename": "ValueError", "evalue": "bad", "traceback": ["ValueError: bad"]})

    @property
    def text(self) -> str:
        return "".join(output.text for output in self.outputs if output.kind == "stream")


@pytest.mark.parametrize(
    ("bundle", "told"),
    [
        # A picture itself goes to the model, or a line that says why not.
        ({"image/png": "QUJD"}, "[image/png]"),
        ({"image/png": LARGE, "text/plain": "all"}, "all\n[image/png, too large to show]"),
        ({"application/vnd.plotly.v1+json": {"data": []}}, f"{CHART} {UNSEEN}"),
        ({"application/vnd.plotly.v1+json": {"data": []}, "image/png": "QUJD"}, f"{CHART}]"),
        ({"text/plain": "alt.Chart(...)", "text/html": "<script>draw()</script>"}, f"alt.Chart(...)\n{PAGE}"),
        (
            {"text/plain": "IntSlider(value=3)", "application/vnd.jupyter.widget-view+json": {"model_id": "m"}},
            f"IntSlider(value=3)\n{WIDGET}",
        ),
    ],
)
async def test_the_model_is_not_told_that_the_user_saw_what_only_some_pages_can_draw(
    bundle: dict[str, Any], told: str
) -> None:
    reading = Reading()
    reading.reader.read("display_data", {"data": bundle, "metadata": {}, "transient": {}})
    assert await reading.reader.end("") == (told, None)
    [shown] = reading.outputs
    assert set(shown.data) == ({"text/plain"} if "too large" in told else set(bundle))


HEAD = '<div>\n<style scoped>\n    td { color: red }\n</style>\n<table border="1" class="dataframe">\n'
ROW = "<tr>\n      <th>{0}</th>\n      <td>row {0}</td>\n      <td>{0:40}</td>\n    </tr>"


def table(rows: int, after: str = "</tbody>") -> str:
    body = "".join(ROW.format(number) for number in range(rows))
    head = "<thead><tr><th></th></tr></thead><tbody>"
    return f"{HEAD}{head}{body}{after}\n</table>\n<p>{rows} rows in 2 columns</p>\n</div>"


def shown(html: Any) -> str:
    reading = Reading()
    reading.reader.read("display_data", {"data": {"text/html": html, "text/plain": "as text"}})
    [output] = reading.outputs
    assert output.data["text/plain"] == "as text"
    return str(output.data["text/html"])


def drawn(html: str) -> str:
    """What a page draws before anything is pressed."""
    return re.sub(r"<script.*</script>", "", html, flags=re.DOTALL)


@pytest.mark.parametrize(
    "whole",
    [
        table(5_000),
        table(5_000).replace("tr>", "TR >").replace("tbody", "TBody") + "İ",
        table(5_000, after="</tbody><tfoot><tr><td>sum</td></tr></tfoot>"),
    ],
    ids=["pandas", "other case", "foot"],
)
def test_a_long_table_draws_its_first_rows_and_has_all_of_them_for_a_press(whole: str) -> None:
    found = shown(whole)
    first = drawn(found)
    assert len(first) < 10_000
    assert f"row {SHOWN_ROWS - 1}<" in first
    assert f"row {SHOWN_ROWS}<" not in first
    assert first.count("<table") == first.count("</table>") == 1
    assert "columns</p>" in first, "what stands below the rows is drawn"
    count = f"{whole.lower().count('<td>row'):,}"
    assert f"The first {SHOWN_ROWS} of {count} rows." in first
    assert f"<summary>Show all {count} rows (" in first
    assert f'<script type="text/plain">{whole}</script>' in found
    assert WHOLE in found


@pytest.mark.parametrize(
    "html",
    [
        table(60),
        table(5_000) + table(1),
        table(5_000).replace("row 7<", "<table><tr><td>inner</td></tr></table><"),
        table(5_000) + "<script>draw()</script>",
        table(2).replace("row 1<", "x" * LONG_CHARACTERS + "<"),
    ],
    ids=["short", "two", "nested", "script", "wide"],
)
def test_other_html_is_shown_as_the_call_made_it(html: str) -> None:
    assert shown(html) == html


LINES = [f"line {number}\n" for number in range(100_000)]
LONG = "".join(LINES)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_very_long_text_is_shown_with_its_true_end_and_says_how_much_is_left_out(fails: bool) -> None:
    reading = Reading()
    for start in range(0, len(LINES), 1_000):
        reading.prints("".join(LINES[start : start + 1_000]))
    if fails:
        reading.fails()
    await reading.reader.end("")
    left_out = len(LONG) - LIVE_CHARACTERS - END_CHARACTERS
    assert reading.text.startswith(LONG[:LIVE_CHARACTERS])
    assert reading.text.endswith(f"[{left_out:,} characters left out here.]\n{LONG[-END_CHARACTERS:]}")
    assert [output.kind for output in reading.outputs if output.kind != "stream"] == (["error"] if fails else [])
    assert reading.outputs[-1].kind == ("error" if fails else "stream")


async def test_a_text_that_is_drawn_again_and_again_ends_as_it_was_last() -> None:
    reading = Reading()
    for number in range(4):
        reading.reader.read("clear_output", {"wait": True})
        reading.prints("x" * 500_000 + f"pass {number}\n")
    await reading.reader.end("")
    assert reading.text.endswith("xxxpass 3\n")
