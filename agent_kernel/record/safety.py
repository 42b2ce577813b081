"""The gate for everything in a record that Agent Kernel did not write: models, tools and people wrote it."""

import html
import itertools
import re
from collections.abc import Sequence

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from agent_kernel.tools.hidden import reveal, reveal_in_prose
from agent_kernel.tools.truncation import TextLimits, truncate

_PROSE = TextLimits(characters=50_000, lines=5_000)
_BRACKETS = 5_000
_NESTED = 400
_SCHEMES = {"http", "https", "mailto"}
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
    url_schemes=_SCHEMES,
    link_rel="noopener noreferrer",
)


class _Renderer(RendererHTML):
    """A picture becomes a link: loading it would tell its server of the reader, and whatever its address carries."""

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[idx]
        address = html.escape(str(token.attrGet("src") or ""))
        words = self.renderInlineAsText(token.children or [], options, env)
        return f'<a href="{address}">{html.escape(words) or "image"}</a>'


_MARKDOWN = MarkdownIt("commonmark", {"html": False}, renderer_cls=_Renderer).enable(["table", "strikethrough"])
_BLOCKS = MarkdownIt("commonmark", {"html": False}).enable("table").disable("inline")
"""Where blocks begin and end, without a look into them: that is nine tenths of the parser's time."""


def escape(text: str) -> str:
    """Text for HTML, hidden characters written out."""
    return html.escape(reveal(text))


def escape_prose(text: str) -> str:
    return html.escape(reveal_in_prose(text))


def clean(markup: str) -> str:
    """HTML with only harmless tags: no script, style, event handler, picture or odd address.

    Empty for HTML with so many tags that could nest that a parser would take seconds: its cost is quadratic in depth.
    """
    if sum(1 for _ in _NESTING_TAG.finditer(markup)) > _NESTED:
        return ""
    return reveal_in_prose(_CLEANER.clean(markup)).strip()


def render(markdown: str) -> str:
    """Markdown as harmless HTML, at most 50,000 characters of it."""
    text = _readable(markdown)
    if _is_hostile(text):
        return f"<pre>{html.escape(text)}</pre>"
    return reveal_in_prose(_CLEANER.clean(_MARKDOWN.render(text))).strip()


def safe_markdown(markdown: str) -> str:
    """Markdown that stays Markdown, without HTML, pictures and odd addresses, and whose blocks all end.

    Code blocks stay as they are; elsewhere `<` before a name is written as `&lt;`.
    """
    text = _readable(markdown)
    if _is_hostile(text):
        return fence(text)
    lines = text.split("\n")
    tokens = _BLOCKS.parse(text)
    in_code: set[int] = set()
    for token in tokens:
        if token.type in ("fence", "code_block") and token.map:
            in_code.update(range(*token.map))
    safe: list[str] = []
    for is_code, numbers in itertools.groupby(range(len(lines)), key=in_code.__contains__):
        part = "\n".join(lines[number] for number in numbers)
        safe.append(part if is_code else _safe_text(part))
    last = tokens[-1] if tokens else None
    if last is not None and last.type == "fence" and not _closes(lines, last):
        safe.append(last.markup)
    return "\n".join(safe).strip("\n")


def _readable(markdown: str) -> str:
    return reveal_in_prose(truncate(markdown, _PROSE).text)


def _is_hostile(text: str) -> bool:
    """Brackets without end are what the Markdown parser takes quadratic time for."""
    return text.count("[") > _BRACKETS


def escape_markdown(text: str) -> str:
    """One line of plain text for Markdown."""
    line = " ".join(reveal_in_prose(text).split()).replace("&", "&amp;").replace("<", "&lt;")
    line = re.sub(r"([\\`*_\[\]|~$!])", r"\\\1", line)
    return re.sub(r"^(\d*)([#+>=.)-])", r"\1\\\2", line)


def code_span(text: str) -> str:
    """A text in backticks, with a longer mark than any inside it."""
    line = " ".join(reveal(text).split())
    if not line:
        return ""
    mark = "`" * (_longest_run(line) + 1)
    edge = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{mark}{edge}{line}{edge}{mark}"


def fence(text: str, language: str = "") -> str:
    """A code block with a longer mark than any inside it."""
    mark = "`" * max(3, _longest_run(text) + 1)
    return f"{mark}{language}\n{reveal(text)}\n{mark}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)


def _closes(lines: list[str], fence_token: Token) -> bool:
    if not fence_token.map:
        return True
    first, end = fence_token.map
    last = lines[min(end, len(lines)) - 1].strip()
    return end - first > 1 and len(last) >= len(fence_token.markup) and set(last) == {fence_token.markup[0]}


_HTML_START = re.compile(r"<(?=[A-Za-z/!?])")
_ADDRESS = re.compile(r"(\]\(\s*|^[ >*+\-\d.]{0,40}\[[^\]\n]{0,200}\]:\s*)(<[^>\n]{0,2000}>|[^\s)]*)", re.MULTILINE)


def _safe_text(text: str) -> str:
    text = _ADDRESS.sub(lambda match: match[1] + _safe_address(match[2]), text)
    return _HTML_START.sub("&lt;", text).replace("![", "!\\[")


def _safe_address(address: str) -> str:
    """`#` for an address whose scheme is not one of a page or of mail, however it is written."""
    bare = re.sub(r"[\x00-\x20\\<>]", "", html.unescape(address)).lower()
    scheme = re.match(r"([^/?#]*?)(:|%3a)", bare)
    return address.strip("<>") if scheme is None or scheme[1] in _SCHEMES else "#"
