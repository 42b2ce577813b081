r"""Finds formulas in Markdown, and tells them from money and code.

The cards implement the same rule (widgets/src/text/formulas.ts), and tests/formulas.json has examples for both.

- `$$...$$` and `\[...\]` are display formulas, `$...$` and `\(...\)` inline ones. A formula contains no blank line, no
  unbalanced brace and no other of these marks.
- A `$` opens a formula only if no letter, digit or `$` precedes it and no space follows it. It closes one only if no
  space precedes it and no digit, capital letter, `{` or `$` follows it. So `$5 to $10` is money, and so is a number
  followed by words.
- Code contains no formulas.
- TeX that could paint beyond its place, or would change other formulas, is refused and shown as its source.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

LONGEST = 5_000
MOST = 500
_DEEPEST = 30
_SHIFTS = 20
_MARKS = ("$$", "$", "\\(", "\\[")
_CLOSING = {"$$": "$$", "$": "$", "\\(": "\\)", "\\[": "\\]"}
_STEP = re.compile(r"\\.|[${}]|\n[ \t]*(?=\n)", re.DOTALL)
_AFTER = re.compile(r"[0-9A-Z{$]")
_COMMAND = re.compile(r"\\[A-Za-z]+")
_GROUP = re.compile(r"\{[^{}]*\}")
_MONEY = re.compile(r"[-+]?\d.*\s[A-Za-z]{2,}", re.DOTALL)
REFUSED_COMMAND = (
    r"\\(?:rule|Rule|Space|m?kern|[hm]skip|[hmv]space|smash|(?:math)?(?:[rl]lap|clap)|raise|lower|raisebox|moveleft|"
    r"moveright|above|abovewithdelims|genfrac|bbox|scalebox|resizebox|mathmakebox|makebox|parbox|fontsize|"
    r"style|class|cssId|data|href|url|unicode|mmlToken|texttip|mathtip|toggle|action|includegraphics|require|"
    r"[gex]?def|let|futurelet|(?:re)?newcommand|providecommand|(?:re)?newenvironment|DeclareMathOperator|"
    r"DeclarePairedDelimiters?[A-Za-z]*|Newextarrow|begingroup|endgroup)(?![A-Za-z])"
)
"""Dimensions, boxes without size, styles, links, and definitions, which a page keeps for all its formulas."""
_REFUSED = re.compile(rf"{REFUSED_COMMAND}|\[\s*-?[\d.]+\s*[a-z]{{2}}\s*\]")
_SHIFT = re.compile(r"\\(?:!|neg(?:thin|med|thick)space)")
_TOKEN = re.compile(r"`+|\\(?![(\[]).|[^\W_]?\$+|\\[(\[]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Formula:
    tex: str
    display: bool
    end: int
    """The index after the formula."""

    @property
    def is_refused(self) -> bool:
        tex = self.tex
        return bool(_REFUSED.search(tex)) or len(_SHIFT.findall(tex)) > _SHIFTS or _depth(tex) > _DEEPEST

    @property
    def source(self) -> str:
        return f"$${self.tex}$$" if self.display else f"${self.tex}$"


@dataclass(frozen=True, slots=True)
class Piece:
    kind: Literal["text", "code", "formula"]
    text: str
    formula: Formula | None = None


def formula_at(text: str, start: int) -> Formula | None:
    """The formula that begins at `start`, or `None`."""
    mark = next((mark for mark in _MARKS if text.startswith(mark, start)), None)
    if mark is None or (mark[0] == "$" and start > 0 and (text[start - 1].isalnum() or text[start - 1] == "$")):
        return None
    begin = start + len(mark)
    end = _end(text, begin, mark)
    if end is None:
        return None
    tex, after = text[begin:end], end + len(mark)
    if not tex.strip() or (mark == "$" and not _is_inline(tex, text[after : after + 1])):
        return None
    return Formula(tex.strip(), mark in ("$$", "\\["), after)


def from_latex(latex: str) -> str:
    """LaTeX of a display as Markdown with formulas; empty if a page would not typeset it."""
    text = latex.strip()
    if text.startswith("\\begin{"):
        text = f"$${text}$$"
    return text if any(piece.kind == "formula" for piece in pieces(text)) else ""


def pieces(text: str) -> Iterator[Piece]:
    """Split a text without code blocks into ordinary text, code spans and formulas."""
    shown = at = 0
    while (token := _TOKEN.search(text, at)) is not None:
        at = token.end()
        found: Piece | None = None
        begin = token.start()
        if token[0][0] == "`":
            end = _end_of_code(text, token[0], at)
            found = Piece("code", text[begin:end]) if end is not None else None
        elif token[0][0] == "$" or token[0] in ("\\(", "\\["):
            formula = formula_at(text, begin)
            found = Piece("formula", text[begin : formula.end], formula) if formula is not None else None
        if found is None:
            continue
        if begin > shown:
            yield Piece("text", text[shown:begin])
        yield found
        shown = at = begin + len(found.text)
    if shown < len(text):
        yield Piece("text", text[shown:])


def _end(text: str, begin: int, mark: str) -> int | None:
    closing = _CLOSING[mark]
    depth = 0
    for step in _STEP.finditer(text, begin, begin + LONGEST):
        what = step[0]
        if what == "{":
            depth += 1
        elif what == "}":
            depth -= 1
        elif what == "$" or what in ("\\(", "\\[", "\\)", "\\]"):
            return step.start() if depth == 0 and text.startswith(closing, step.start()) else None
        if depth < 0 or what[0] == "\n":
            return None
    return None


def _is_inline(tex: str, following: str) -> bool:
    if tex[0].isspace() or tex[-1].isspace() or _AFTER.match(following):
        return False
    bare = _COMMAND.sub("", tex)
    while (less := _GROUP.sub("", bare)) != bare:
        bare = less
    return _MONEY.match(bare) is None


def _depth(tex: str) -> int:
    depth = deepest = 0
    for step in _STEP.finditer(tex):
        depth += {"{": 1, "}": -1}.get(step[0], 0)
        deepest = max(deepest, depth)
    return deepest


def _end_of_code(text: str, mark: str, begin: int) -> int | None:
    closing = re.compile(rf"(?<!`){mark}(?!`)").search(text, begin)
    return closing.end() if closing is not None else None
