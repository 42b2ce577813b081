"""A table of thousands of rows holds up no page: its first rows stand, and all of them are one press away."""

import re
from typing import Any

import pytest

from agent_kernel.execution import output_reader
from agent_kernel.execution.long_tables import LONG_CHARACTERS, SHOWN_ROWS, WHOLE
from agent_kernel.execution.output_reader import OutputReader
from agent_kernel.protocol.views import OutputView

HEAD = '<div>\n<style scoped>\n    td { color: red }\n</style>\n<table border="1" class="dataframe">\n'
ROW = "<tr>\n      <th>{0}</th>\n      <td>row {0}</td>\n      <td>{0:40}</td>\n    </tr>"


def table(rows: int, before: str = "<thead><tr><th></th></tr></thead><tbody>", after: str = "</tbody>") -> str:
    body = "".join(ROW.format(number) for number in range(rows))
    return f"{HEAD}{before}{body}{after}\n</table>\n<p>{rows} rows in 2 columns</p>\n</div>"


def shown(html: Any, **others: Any) -> str:
    outputs: list[OutputView] = []
    reader = OutputReader(outputs.append)
    reader.read("display_data", {"data": {"text/html": html, "text/plain": "as text", **others}})
    [output] = outputs
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
        table(5_000, before="", after=""),
        table(5_000, after="</tbody><tfoot><tr><td>sum</td></tr></tfoot>"),
        table(5_000).replace(ROW.format(2_000), f"</tbody><tbody>{ROW.format(2_000)}"),
    ],
    ids=["pandas", "other case", "no body", "foot", "two bodies"],
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
        "<p>" + "x" * LONG_CHARACTERS,
        table(5_000) + table(1),
        table(5_000).replace("row 7<", "<table><tr><td>inner</td></tr></table><"),
        table(5_000) + "<script>draw()</script>",
        table(5_000).replace("row 7<", "</script><"),
        table(5_000).replace("row 7<", "<!-- note --><"),
        table(2).replace("row 1<", "x" * LONG_CHARACTERS + "<"),
        ["<table>", "</table>"],
    ],
    ids=["short", "text", "two", "nested", "script", "end of script", "comment", "wide", "lines"],
)
def test_other_html_is_shown_as_the_call_made_it(html: Any) -> None:
    assert shown(html) == str(html)


def test_a_table_that_is_too_large_to_be_kept_still_shows_its_first_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = table(10_000)
    monkeypatch.setattr(output_reader, "DISPLAY_CHARACTERS", len(whole))
    found = shown(whole)
    assert len(found) < 10_000
    assert "row 0<" in found
    assert "of 10,000 rows." in found
    assert f"The whole table, {len(whole) / 1e6:.1f} MB of HTML, is too large to be kept here." in found
