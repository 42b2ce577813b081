"""What is a formula, and what is money or code: the same as on the cards."""

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.record.formulas import LONGEST, pieces
from agent_kernel.record.markdown import safe_markdown
from agent_kernel.record.safety import clean, escape_prose, render
from tests.cpu import bounded

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "formulas.json").read_text("utf-8"))["cases"]
DOLLARS = re.compile(r"\$\$(.+?)\$\$|\$((?:[^$\\]|\\.)+)\$", re.DOTALL)


def typeset(markup: str) -> list[dict[str, Any]]:
    """What a page's MathJax would typeset: it looks at one text at a time, and skips code."""
    visible = re.sub(r"<(pre|code)\b.*?</\1>", "<br>", markup, flags=re.DOTALL)
    texts = map(unescape, re.split(r"<[^>]*>", visible))
    found = [(text, match) for text in texts for match in DOLLARS.finditer(text)]
    return [{"tex": match[1] or match[2], "display": match[1] is not None} for _, match in found]


def source(formula: dict[str, Any]) -> str:
    mark = "$$" if formula["display"] else "$"
    return f"{mark}{formula['tex']}{mark}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_record_typesets_what_the_cards_do_in_each_of_its_forms(case: dict[str, Any]) -> None:
    markup = render(case["text"])
    shown = [formula for formula in case["formulas"] if not formula.get("refused")]
    assert typeset(markup) == shown
    assert all(f"<code>{source(one)}</code>" in unescape(markup) for one in case["formulas"] if one.get("refused"))
    again = typeset(render(safe_markdown(case["text"])))
    assert again == [formula | {"tex": formula["tex"].replace("<b", "< b")} for formula in shown]


def test_a_formula_of_a_table_or_of_a_sentence_of_ours_is_none() -> None:
    assert typeset(clean("<table><tr><td>$5 and $6, \\(x\\)</td></tr></table>")) == []
    assert typeset(escape_prose("Denied by ana: $5 is not $6")) == []
    assert escape_prose("\\(x\\) \\begin{a}") == "<span>\\</span>(x<span>\\</span>) <span>\\</span>begin{a}"


@pytest.mark.parametrize("text", ["${", "\\({", "$a$", "\\[x", "$1 a"])
def test_hostile_formulas_take_little_time(text: str) -> None:
    hostile = (text * 50_000)[:50_000]
    bounded(5, lambda: (render(hostile), safe_markdown(hostile)))
    assert "".join(piece.text for piece in pieces(hostile)) == hostile


def test_a_formula_without_end_is_none() -> None:
    assert typeset(render("$" + "x" * (LONGEST + 1) + "$")) == []
