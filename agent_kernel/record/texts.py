"""What calls have printed: text as a terminal leaves it, with its colours."""

import html
import re

from agent_kernel.record import words
from agent_kernel.tools.review.hidden import reveal
from agent_kernel.tools.truncation import TextLimits, truncate

MOST_LINES = 30
"""The most lines of a text that are in sight; a longer one is folded."""
OUTPUT_LOOK = (
    ' style="font-family: var(--jp-code-font-family, monospace); border-left: 3px solid #888888; padding: 2px 10px; '
    'max-height: 420px; overflow: auto"'
)
_FRAME_LINES = 24
"""As many lines may be in a frame without scrolling."""
_TEXT = TextLimits(characters=10_000, lines=400)
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_COLOUR = re.compile(r"\x1b(?:\[([\d;]*)(m)?)?")
"""Matches also what truncation has left of one."""
_COLOURS = (
    *("#3e424d", "#e75c58", "#00a250", "#ddb62b", "#208ffb", "#d160c4", "#60c6c8", "#c5c1b4"),
    *("#282c36", "#b22b31", "#007427", "#b27d12", "#0065ca", "#a03196", "#258f8f", "#a1a6b2"),
)
"""JupyterLab's colours, normal and intense, on light and dark pages. Its classes are for outputs of text only."""
_STYLES = {
    code: (name, value)
    for name, values in {
        "font-weight": {1: "bold", 22: ""},
        "font-style": {3: "italic", 23: ""},
        "text-decoration": {4: "underline", 24: ""},
        "color": {39: "", **dict(zip((*range(30, 38), *range(90, 98)), _COLOURS, strict=True))},
        "background-color": {49: "", **dict(zip((*range(40, 48), *range(100, 108)), _COLOURS, strict=True))},
    }.items()
    for code, value in values.items()
}
"""What a code sets; an empty value ends it."""


def bounded(text: str) -> str:
    """The last state of redrawn lines, with colours, without what else acts on a terminal."""
    kept = _ESCAPE.sub(lambda found: found[0] if _COLOUR.fullmatch(found[0]) else "", text).replace("\r\n", "\n")
    if "\r" in kept:
        kept = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in kept.split("\n"))
    return truncate(kept.rstrip("\n"), _TEXT).text


def without_colours(text: str) -> str:
    return _COLOUR.sub("", text)


def coloured(text: str) -> str:
    """Text as HTML, with its colours as styles, which JupyterLab's sanitiser keeps."""
    parts: list[str] = []
    style: dict[str, str] = {}
    at = 0
    for found in _COLOUR.finditer(text):
        parts.append(_styled(text[at : found.start()], style))
        at = found.end()
        if found[2]:
            _read_codes([int(code or 0) for code in found[1].split(";")], style)
    return "".join([*parts, _styled(text[at:], style)])


def framed(text: str) -> str:
    """A text as HTML in a frame, which the keyboard reaches where it scrolls."""
    stop = ' tabindex="0"' if text.count("\n") >= _FRAME_LINES else ""
    return f"<pre{stop}{OUTPUT_LOOK}>{coloured(text)}</pre>"


def in_sight(text: str) -> dict[str, str]:
    """A text as a MIME bundle, folded where it is long. Front ends draw the colours of plain text themselves."""
    count = text.count("\n") + 1
    if count <= MOST_LINES:
        return {"text/plain": text}
    summary = words.FOLDED.format(count=count)
    folded = f'<details class="agent-text"><summary>{summary}</summary>\n{framed(text)}\n</details>'
    return {"text/html": folded, "text/plain": text}


def _styled(text: str, style: dict[str, str]) -> str:
    shown = html.escape(reveal(text))
    if not shown or not style:
        return shown
    return f'<span style="{"; ".join(f"{name}: {value}" for name, value in style.items())}">{shown}</span>'


def _read_codes(codes: list[int], style: dict[str, str]) -> None:
    while codes:
        code = codes.pop(0)
        name, value = _STYLES.get(code, ("", ""))
        if code in (38, 48):
            name, value = "color" if code == 38 else "background-color", _extended(codes)
        if code == 0:
            style.clear()
        style.pop(name, None)
        if value:
            style[name] = value


def _extended(codes: list[int]) -> str:
    """One of 256 colours, or of 24 bits; empty for none."""
    kind = codes.pop(0) if codes else 0
    if kind == 2 and len(codes) >= 3:
        red, green, blue = (min(part, 255) for part in codes[:3])
        del codes[:3]
        return f"#{red:02x}{green:02x}{blue:02x}"
    if kind != 5 or not codes:
        return ""
    number = codes.pop(0)
    if number < 16:
        return _COLOURS[number]
    if number < 232:
        steps = (number - 16) // 36, (number - 16) // 6 % 6, (number - 16) % 6
        return "#" + "".join(f"{55 + 40 * step if step else 0:02x}" for step in steps)
    return "#" + f"{8 + 10 * (min(number, 255) - 232):02x}" * 3
