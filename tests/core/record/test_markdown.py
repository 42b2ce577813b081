"""Formulas of a record are those of the cards, and nothing in it acts, whichever engine reads it."""

import html
import json
import re
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_kernel.protocol.run_results import RunProgress
from agent_kernel.protocol.views import MessageView
from agent_kernel.record import render_record
from agent_kernel.record.as_cells import all_cells
from agent_kernel.record.markdown import safe_markdown
from agent_kernel.record.safety import clean, escape_prose, render
from agent_kernel.record.so_far import render_so_far
from tests.core.record.engines import WIDGETS, Marked, acting, markdown_it, nbconvert
from tests.core.record.record_examples import a_call, a_run, displayed, printed, says
from tests.core.runtime.turns.fuzzing import rounds
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


Engines = dict[str, Callable[[str], str]]
LONG = "x" * 500
ODD_LINKS = [
    "> [x]:\n> {}\n\n[x]",
    "[x]: {}\n\n[x]",
    f"[{LONG}]: {{}}\n\n[{LONG}]",
    "[x\ny]: {}\n\n[x y]",
    "> [x](\n> {})",
    "<{}>",
    "[![a]({})]({})",
    "|a|b|\n|-|-|\n|[x]({})|`|`|",
    "a ` b\n\n`[x]({})` c",
    "$[x]({})$ and $$[y](<{}>)$$",
    "<a\nhref='{}'>x</a>",
    "[^1]\n\n[^1]: {}",
    "[x](<{}>)",
]
ODD_ADDRESSES = [
    *("javascript:alert(1)", "JaVaScRiPt:alert(1)", "javascript\\:alert(1)", "&#x6A;avascript&colon;alert(1)"),
    *("java&Tab;script:alert(1)", "java\tscript:alert(1)", f"&#{'0' * 1500}106;avascript:alert(1)"),
    *("&amp;#106;avascript:alert(1)", "&\\#106;avascript:alert(1)", "\\javascript:alert(1)", "vbscript:x"),
    *("data:text/html,x", "file:///etc/passwd"),
]
SCRIPT = "<script>alert(1)</script>"
HIDDEN = {
    "a formula that begins before a code block": f"\\\\[\n\n```\n{SCRIPT}\n\\\\\\]\n```",
    "the same in code": f"`\\\\[`\n\n```\n{SCRIPT}\\\\\\]\n```",
    "an environment": f"\\begin{{a}}\n\n```\n{SCRIPT}\n\\end{{a}}\n```",
    "dollars in code": f"`$$`\n\n```\n{SCRIPT}\n$$\n```",
    "a diagram": f"```mermaid\n{SCRIPT}\n```",
    "a title on many lines": f'[x]: /u "t\n```\n{SCRIPT}\n"\n```',
    "indented code": f"- a\n\n     {SCRIPT}\n\n<b>x</b>",
    "a block in a list": f"1. a\n   ```\n   {SCRIPT}\n   ```",
    "a block beside a list": f"- a\n ```\n {SCRIPT}\n ```",
    "a block in a quote": f"> ```\n> {SCRIPT}\n",
}


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    if not (WIDGETS / "node_modules" / "marked").is_dir():
        yield {"markdown-it": markdown_it, "nbconvert": nbconvert}
        return
    marked = Marked()
    yield {"markdown-it": markdown_it, "nbconvert": nbconvert, "marked": marked}
    marked.close()


def assert_inert(text: str, engines: Engines) -> None:
    for name, engine in engines.items():
        assert acting(engine(text)) == [], (name, text)


@pytest.mark.parametrize("text", HIDDEN.values(), ids=HIDDEN)
def test_what_one_engine_takes_for_code_does_not_act_in_another(text: str, engines: Engines) -> None:
    assert_inert(safe_markdown(text), engines)


@pytest.mark.parametrize("form", ODD_LINKS)
def test_no_engine_makes_a_link_of_an_odd_address(form: str, engines: Engines) -> None:
    for address in ODD_ADDRESSES:
        assert_inert(safe_markdown(form.replace("{}", address)), engines)


PIECES = [
    *("[x]", "[x]: ", "[x](", ")", "](", "]:", "<", ">", "`", "``", "```\n", "~~~\n", "\n", "\n\n", "> ", "- ", "1. "),
    *("    ", "   ", "\t", "|", "\n|-|-|\n", "javascript:alert(1)", "data:x", "&#106;avascript:x", "java\\script:x"),
    *("<script>alert(1)</script>", "<a href='javascript:x'>", "<b", "<!--", "-->", "![", "https://x.example", "x", '"'),
    *("'", "(", "\\", "$", "$$", "\\\\[", "\\\\]", "\\\\(", "\\begin{a}", "\\end{a}", "\\rule{9cm}{9cm}", "mermaid\n"),
    *("*", "~~", "[^1]: ", "# ", "\n---\n", ": ", "<https://x.example>", "&", "&colon;", "&lt;", "[", "]"),
]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("see [1]: Note: it is so", "see [1]: Note: it is so"),
        ("`<div>` and `a < b`", "<div> and a < b"),
        ("[click](javascript:alert(1))", "[click](javascript:alert(1))"),
    ],
)
def test_the_words_stay(text: str, says: str, engines: Engines) -> None:
    for engine in engines.values():
        words = html.unescape(re.sub(r"<[^>]*>", "", engine(safe_markdown(text)))).strip()
        assert words == says


def test_ordinary_links_and_code_stay_as_they_are() -> None:
    for text in (
        "[a](exports/x.csv#row) [b](mailto:a@b.example)",
        '[x]: https://x.example "Title"\n\n[x]',
        "[^1]: See the table.",
        "```python\nx = '<b>'\n```",
        "```mermaid\ngraph TD\n```",
        "1. a\n   ```sh\n   echo $HOME\n   ```",
        "$\\alpha_1 < b$ and `x`",
    ):
        assert safe_markdown(text) == text


MIXED = st.lists(st.sampled_from([*PIECES, "- a\n", "  ```\n", "`````\n", "a\n: b\n", "\t- "]), max_size=10).map(
    "".join
)


@given(MIXED, MIXED)
@rounds(60, 20_000)
def test_nothing_acts_however_the_marks_are_mixed(engines: Engines, text: str, name: str) -> None:
    assert_inert(safe_markdown(text), engines)
    outputs = [printed(text), displayed(text_markdown=text, text_plain=name)]
    call = a_call(1, "run_python", {"code": text}, reason=name, outputs=outputs)
    run = a_run(prompt=text, model=name, run_id=name)
    asked = MessageView(message_id="m1", run_id="run_1", role="user", content=text)
    said = [asked, says(name, call), says(text)]
    record = render_record(run, said, [call])["text/markdown"]
    assert_inert(record, engines)
    for engine in engines.values():
        assert "<summary>1 step: 1 done</summary>" in engine(record), "the answer takes the transcript into its blocks"
    for cell in all_cells(run, said, [call]):
        if cell.kind == "markdown":
            assert_inert(cell.source, engines)
    waits = a_call(1, name, {"code": text}, state="awaiting_approval", reason=text)
    assert_inert(render_so_far(RunProgress(run, (waits,), {}, None, ahead_waits=False))["text/markdown"], engines)


@pytest.mark.parametrize(
    "text", ["[" * 50_000, "$a" * 25_000, "[a](" * 4_900 + ">" * 20_000], ids=lambda text: text[:4]
)
def test_hostile_markdown_takes_little_time(text: str) -> None:
    bounded(5, lambda: (render(text), safe_markdown(text)))
