"""Sanitises everything in a record that models, tools and people wrote."""

import html
import re
from collections.abc import Sequence

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from agent_kernel.record.formulas import MOST, Formula, formula_at
from agent_kernel.tools.review.hidden import reveal, reveal_in_prose
from agent_kernel.tools.truncation import TextLimits, truncate

_PROSE = TextLimits(characters=50_000, lines=5_000)
_BRACKETS = 5_000
_NESTED = 400
_LINES = 100
"""The most lines of one formula."""
SCHEMES = {"http", "https", "mailto"}
_TAGS = {
    *("table", "thead", "tbody", "tfoot", "tr", "th", "td", "caption", "colgroup", "col"),
    *("p", "div", "span", "br", "hr", "blockquote", "pre", "code", "ul", "ol", "li", "dl", "dt", "dd"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "b", "strong", "i", "em", "s", "del", "u", "sub", "sup", "small", "a"),
}
_DROPPED_WHOLE = {"script", "style", "template", "svg", "math", "iframe", "object", "noscript", "title", "textarea"}
_NESTING_TAG = re.compile(r"<(?!(?:t[rdh]|li|p|thead|tbody|tfoot|br|hr|col|img|d[td])\b)[a-z]", re.IGNORECASE)
_CLEANER = nh3.Cleaner(
    tags=_TAGS,
    clean_content_tags=_DROPPED_WHOLE,
    attributes={
        "a": {"href"},
        "th": {"colspan", "rowspan", "scope", "align"},
        "td": {"colspan", "rowspan", "align"},
        "ol": {"start"},
        "table": {"border"},
    },
    allowed_classes={"table": {"dataframe"}},
    url_schemes=SCHEMES,
    link_rel="noopener noreferrer",
)


class _Renderer(RendererHTML):
    """Renders pictures as links, because loading one would report the reader, and data in the address, to a server.

    A formula is replaced by a number until everything else is sanitised.
    """

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[idx]
        address = html.escape(str(token.attrGet("src") or ""))
        words = self.renderInlineAsText(token.children or [], options, env)
        return f'<a href="{address}">{html.escape(words) or "image"}</a>'

    def td_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """A column's alignment is an attribute, because styles are removed."""
        if style := tokens[idx].attrs.pop("style", ""):
            tokens[idx].attrSet("align", str(style).removeprefix("text-align:"))
        return self.renderToken(tokens, idx, options, env)

    th_open = td_open

    def formula(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:  # noqa: ARG002 -- markdown-it's signature
        formulas: list[Formula] = env["formulas"]
        formulas.append(tokens[idx].meta["formula"])
        place = f"{_PLACE[0]}{len(formulas) - 1}{_PLACE[1]}"
        return f"<p>{place}</p>\n" if tokens[idx].block else place


def _inline_formula(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] not in "$\\":
        return False
    formula = formula_at(state.src, state.pos)
    if formula is None or formula.end > state.posMax:
        end = state.pos
        while end < state.posMax and state.src[end] == "$":
            end += 1
        if end > state.pos and not silent:
            state.pending += state.src[state.pos : end]
        moved, state.pos = end > state.pos, end
        return moved
    if not silent:
        state.push("formula", "", 0).meta["formula"] = formula
    state.pos = formula.end
    return True


def _block_formula(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """A display formula on lines of its own, whose lines are not parsed as lists or headings."""
    begin = state.bMarks[first] + state.tShift[first]
    if not state.src.startswith(("$$", "\\["), begin) or state.is_code_block(first):
        return False
    closing = "$$" if state.src[begin] == "$" else "\\]"
    end, closed = first + 1, state.src.find(closing, begin + 2, state.eMarks[first]) >= 0
    while (
        not closed
        and end < min(last, first + _LINES)
        and not state.isEmpty(end)
        and state.sCount[end] >= state.blkIndent
    ):
        closed = state.src.find(closing, state.bMarks[end], state.eMarks[end]) >= 0
        end += 1
    if not closed:
        return False
    text = state.getLines(first, end, state.blkIndent, False).lstrip(" ")
    formula = formula_at(text, 0)
    if formula is None or text[formula.end :].split("\n", 1)[0].strip():
        return False
    if not silent:
        state.line = first + text.count("\n", 0, formula.end) + 1
        token = state.push("formula", "", 0)
        token.block, token.map, token.meta["formula"] = True, [first, state.line], formula
    return True


def with_formulas(parser: MarkdownIt) -> MarkdownIt:
    interrupts = ["paragraph", "reference", "blockquote", "list"]
    parser.block.ruler.before("fence", "formula", _block_formula, {"alt": interrupts})
    return parser


_PLACE = "\ue0f0", "\ue0f1"
"""Private-use characters around the number of a formula, until the formula is inserted."""
_MARKDOWN = with_formulas(MarkdownIt("commonmark", {"html": False}, renderer_cls=_Renderer))
_MARKDOWN.enable(["table", "strikethrough"]).inline.ruler.before("escape", "formula", _inline_formula)


_CODE_IN_MESSAGE = re.compile(r"`([^`\n]+)`")


def escape(text: str) -> str:
    """Escape text for HTML, with hidden characters written out."""
    return html.escape(reveal(text))


def escape_prose(text: str) -> str:
    return _no_formulas(html.escape(reveal_in_prose(text)))


def escape_message(text: str) -> str:
    """A message of ours as prose, with code between backticks."""
    return _CODE_IN_MESSAGE.sub(r"<code>\1</code>", escape_prose(text))


def clean(markup: str) -> str:
    """Sanitise HTML: no script, style, event handler, picture or refused address.

    The result is empty for HTML with so many tags that parsing could take seconds, because its cost is quadratic in the
    depth of nesting.
    """
    if sum(1 for _ in _NESTING_TAG.finditer(markup)) > _NESTED:
        return ""
    return _no_formulas(reveal_in_prose(_CLEANER.clean(markup))).strip()


def render(markdown: str) -> str:
    """Render at most 50,000 characters of Markdown as safe HTML, with formulas that a page can typeset."""
    text = readable(markdown)
    if is_hostile(text):
        return f"<pre>{html.escape(text)}</pre>"
    formulas: list[Formula] = []
    cleaned = _CLEANER.clean(_MARKDOWN.render(text, {"formulas": formulas}))
    return _put(formulas, _no_formulas(reveal_in_prose(cleaned))).strip()


_PART = re.compile(r"""<(?P<name>/?[a-z0-9]+)(?:[^>"]|"[^"]*")*>|[^<]+""")
_BEGINS = re.compile(r"\$|\\(?=[\\()\[\]$]|(?:begin|end|ref|eqref)\b)")


def _no_formulas(markup: str) -> str:
    """Prevent a page's MathJax or KaTeX from finding formulas in safe HTML, so that `$5 to $10` stays money.

    Both search one text node at a time and skip code, so each mark that could begin a formula gets an element of its
    own.
    """
    if "$" not in markup and "\\" not in markup:
        return markup
    code = 0
    parts: list[str] = []
    for part in _PART.finditer(markup):
        name = part["name"]
        if name is not None:
            code += {"pre": 1, "code": 1, "/pre": -1, "/code": -1}.get(name, 0)
        parts.append(part[0] if name is not None or code > 0 else _BEGINS.sub(r"<span>\g<0></span>", part[0]))
    return "".join(parts)


def _put(formulas: list[Formula], markup: str) -> str:
    def formula(place: re.Match[str]) -> str:
        number = int(place[1])
        if number >= len(formulas):
            return place[0]
        found = formulas[number]
        source = html.escape(found.source)
        return f"<code>{source}</code>" if found.is_refused or number >= MOST else source

    return re.sub(f"{_PLACE[0]}(\\d{{1,6}}){_PLACE[1]}", formula, markup) if formulas else markup


def readable(markdown: str) -> str:
    return reveal_in_prose(truncate(markdown, _PROSE).text)


def is_hostile(text: str) -> bool:
    """Whether a text has so many unclosed brackets that a Markdown parser would take quadratic time."""
    return max(text.count("["), text.count("]"), text.count("<")) > _BRACKETS
