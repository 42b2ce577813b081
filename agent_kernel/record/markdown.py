r"""Makes Markdown safe for engines that check no address and let HTML through.

Engines differ in what is code, a link or a formula, so outside of top-level code blocks nothing here relies on that: no
`<` begins a tag but a `<code>` made here, and no `](` or `]:` stands before a refused address, whatever is around it.
The result is parsed once more, and becomes a code block as a whole if anything active is left.
"""

import re
from collections.abc import Iterator, Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token

from agent_kernel.record.formulas import REFUSED_COMMAND, pieces
from agent_kernel.record.safety import SCHEMES, is_hostile, readable, with_formulas
from agent_kernel.tools.review.hidden import reveal, reveal_in_prose

_BLOCKS = with_formulas(MarkdownIt("commonmark", {"html": False})).enable("table").disable("inline")
"""Parses blocks without their inline content, which would take nine tenths of the time."""
_LIBERAL = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
_LIBERAL.validateLink = lambda url: True  # type: ignore[method-assign]  # noqa: ARG005 -- as markdown-it documents

_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_TO_ADDRESS = re.compile(r"\]([(:])")
_ADDRESS = re.compile(r"[ \t]*(?:<([^\s<>]*)>|([^\s<>)]+))")
_SCHEME = re.compile(r"([^/?#:%]*)(?::|%3a)", re.IGNORECASE)
_TITLE = re.compile(r"""[\s>]*["'(]""")
_WHOLE_TITLE = re.compile(r"""[ \t]+"[^"\n]*"[ \t]*(?:\n|\Z)""")
_FORMULA_MARK = re.compile(r"\\\\[(\[]|\\(?:begin|end)(?=\{)")
"""Further marks of formulas in nbconvert and JupyterLab."""
_IN_DOLLARS = re.compile(f"{_FORMULA_MARK.pattern}|{REFUSED_COMMAND}")
_MONEY = re.compile(r"(?<!\\)((?:\\\\)*)\$")
_ESCAPED = {"(": "&#40;", ":": "&#58;"}
_LANGUAGE = re.compile(r"[\w.+#-]{1,40}")


def safe_markdown(markdown: str) -> str:
    r"""Markdown without HTML, pictures and refused addresses, with all blocks closed.

    Code is unchanged; elsewhere `<` before a name becomes `&lt;`, and `$` of money becomes `\$`.
    """
    text = readable(markdown).replace("\r\n", "\n")
    if is_hostile(text):
        return fence(text)
    made = _made_safe(text)
    return made if _is_inert(made) else fence(text)


def _made_safe(text: str) -> str:
    lines = text.split("\n")
    parts: list[str] = []
    at = 0
    for token in _BLOCKS.parse(text):
        if token.type not in ("fence", "code_block") or token.map is None:
            continue
        first, end = token.map[0], min(token.map[1], len(lines))
        parts.extend(_text(lines[at:first]))
        if token.type == "fence" and token.level == 0:
            parts.extend(_block(token, first > 0 and lines[first - 1], lines[end : end + 1]))
        else:
            parts.append(_quiet("\n".join(lines[first:end])))
        at = end
    parts.extend(_text(lines[at:]))
    return "\n".join(parts).strip("\n")


def _block(token: Token, before: str | bool, after: list[str]) -> Iterator[str]:
    """A code block with its own fences and blank lines around it, so that every engine sees the same block."""
    language = token.info.strip().split(" ", 1)[0]
    if not _LANGUAGE.fullmatch(language):
        language = ""
    if language.startswith("mermaid") and _TAG.search(token.content):
        # nbconvert inserts the source of a mermaid diagram into the page as HTML.
        language = "text"
    if before:
        yield ""
    yield fence(token.content.removesuffix("\n"), language)
    if any(line.strip() for line in after):
        yield ""


def _text(lines: list[str]) -> Iterator[str]:
    if not lines:
        return
    # A code span or a formula ends with its paragraph.
    parts = re.split(r"(\n[ \t]*(?=\n))", "\n".join(lines))
    yield "".join(part if number % 2 else _paragraph(part) for number, part in enumerate(parts))


def _paragraph(text: str) -> str:
    marks = _IN_DOLLARS if "$" in text else _FORMULA_MARK
    parts: list[str] = []
    for piece in pieces(text):
        if piece.formula is not None:
            refused = piece.formula.is_refused or "```" in piece.text or "~~~" in piece.text
            source = piece.formula.source
            parts.append(code_span(source) if refused else _formula(source))
        elif piece.kind == "code" and not re.search(r"[\n|]", piece.text):
            parts.append(_span(piece.text))
        elif piece.kind == "code":
            # Other engines may see no formula here.
            parts.append(_quiet(piece.text))
        else:
            safe = _TAG.sub("&lt;", _without_links(piece.text)).replace("![", "&#33;[")
            safe = _MONEY.sub(r"\1\\$", safe)
            parts.append(marks.sub(lambda found: _code(found[0].replace("\\\\", "\\")), safe))
    return "".join(parts)


def _formula(source: str) -> str:
    # `<` before a letter begins HTML in engines without formulas, and `\\[` a formula in nbconvert.
    spaced = re.sub(r"(?:<|&lt;)(?=[A-Za-z/!?])", "< ", source)
    return _without_links(re.sub(r"\\\\(?=[(\[])", r"\\\\{}", spaced))


def _span(text: str) -> str:
    if _without_links(text) == text and not _TAG.search(text) and not _is_formula_somewhere(text):
        return text
    inside = text.strip("`")
    return _code(inside[1:-1] if inside.strip() and inside[0] == inside[-1] == " " else inside)


def _quiet(text: str) -> str:
    """Escape code that another engine may take for text."""
    safe = _TAG.sub("&lt;", _without_links(text))
    return _FORMULA_MARK.sub(lambda found: f"&#92;{found[0][1:]}", safe).replace("$$", "&#36;&#36;")


def _without_links(text: str) -> str:
    """A text in which no `](` and no `]:` stands before an address that is refused, or not clearly one."""

    def mark(found: re.Match[str]) -> str:
        return f"]{_ESCAPED[found[1]]}" if _is_odd(text, found.end(), found[1] == ":") else found[0]

    return _TO_ADDRESS.sub(mark, text)


def _is_odd(text: str, start: int, is_definition: bool) -> bool:
    found = _ADDRESS.match(text, start)
    if found is None or _is_refused(found[1] or found[2] or ""):
        return True
    # A title on several lines would hide what is on them from some engines.
    end = found.end()
    return is_definition and _TITLE.match(text, end) is not None and not _WHOLE_TITLE.match(text, end)


def _is_refused(address: str) -> bool:
    """Whether an address has a scheme that is not accepted, or may have one in an engine's reading."""
    scheme = _SCHEME.match(address)
    if scheme is not None and scheme[1].lower() in SCHEMES:
        return False
    return scheme is not None or "&" in address or "\\" in address


def _is_inert(markdown: str) -> bool:
    """Whether a permissive engine finds nothing active in the text."""
    if "](" not in markdown and "]:" not in markdown and "<" not in markdown:
        return True
    return all(map(_is_harmless, _all(_LIBERAL.parse(markdown))))


def _all(tokens: Sequence[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _all(token.children or ())


def _is_harmless(token: Token) -> bool:
    if token.type in ("html_block", "html_inline"):
        return not _TAG.search(re.sub(r"</?code>", "", token.content))
    addresses = (str(token.attrGet(name) or "") for name in ("href", "src"))
    return token.type != "image" and not any(map(_is_refused, addresses))


def escape_markdown(text: str) -> str:
    """Escape one line of plain text for Markdown."""
    line = " ".join(reveal_in_prose(text).split()).replace("&", "&amp;").replace("<", "&lt;")
    line = re.sub(r"([`*_\[\]|~$!])", r"\\\1", line.replace("\\", "&#92;"))
    return re.sub(r"^(\d*)([#+>=.)-])", r"\1\\\2", line)


def markdown_message(text: str) -> str:
    """A message of ours as one line, with code between backticks."""
    parts = re.split(r"(`[^`]+`)", " ".join(text.split()))
    return "".join(code_span(part[1:-1]) if number % 2 else _escape_within(part) for number, part in enumerate(parts))


def _escape_within(part: str) -> str:
    """A part of a line, with the spaces at its ends."""
    text = part.strip()
    return part.replace(text, escape_markdown(text)) if text else part


def code_span(text: str) -> str:
    """A code span, with a longer run of backticks than any inside it."""
    line = " ".join(reveal(text).split())
    if not line:
        return ""
    if _is_formula_somewhere(line):
        return _code(line)
    mark = "`" * (_longest_run(line) + 1)
    edge = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{mark}{edge}{line}{edge}{mark}"


def fence(text: str, language: str = "") -> str:
    """A code block with a longer fence than any inside it."""
    mark = "`" * max(3, _longest_run(text) + 1)
    return f"{mark}{language}\n{reveal(text)}\n{mark}"


def _is_formula_somewhere(code: str) -> bool:
    """Escape dollars in code, because nbconvert looks for formulas before code."""
    return "$$" in code or _FORMULA_MARK.search(code) is not None


def _code(text: str) -> str:
    """An inline `<code>` element in which no engine finds anything but text."""
    return f"<code>{re.sub(r'[^A-Za-z0-9 .,;=+/-]', lambda found: f'&#{ord(found[0])};', text)}</code>"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)
