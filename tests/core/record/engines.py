"""What engines of Markdown that people read records in make of a text: their HTML, with every tag and address let
through, so that nothing depends on an engine's own care."""

import json
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

from markdown_it import MarkdownIt
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

WIDGETS = Path(__file__).parents[3] / "widgets"
_MARKED = """
import { createInterface } from "node:readline";
import { marked } from "marked";
for await (const line of createInterface({ input: process.stdin }))
  process.stdout.write(JSON.stringify(marked.parse(JSON.parse(line))) + "\\n");
"""
_TAGS = {
    *("a", "blockquote", "br", "code", "dd", "del", "details", "div", "dl", "dt", "em", "h1", "h2", "h3", "h4", "h5"),
    *("h6", "hr", "input", "li", "ol", "p", "pre", "s", "span", "strong", "summary", "table", "tbody", "td", "th"),
    *("thead", "tr", "ul"),
}
"""What Markdown without HTML and pictures turns into; `input` is the box of a task."""
_ATTRIBUTES = {"href", "title", "class", "id", "align", "start", "type", "checked", "disabled", "style", "open"}
_STYLE = re.compile(r"(text-align: ?(left|center|right);?|line-height: 125%;)?")
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):")


def markdown_it(text: str) -> str:
    """As GitHub's, which follows the same specification."""
    engine = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    engine.validateLink = lambda url: True  # type: ignore[method-assign]
    rendered: str = engine.render(text)
    return rendered


def nbconvert(text: str) -> str:
    """As a notebook that is exported as HTML."""
    return str(MarkdownWithMath(renderer=IPythonRenderer(escape=False)).render(text))


class Marked:
    """As JupyterLab and the cards, before their sanitisers."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            ["node", "--input-type=module", "-e", _MARKED],
            cwd=WIDGETS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, text: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(text) + "\n")
        self._process.stdin.flush()
        return str(json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        self._process.communicate(timeout=10)


class _Acting(HTMLParser):
    def __init__(self, markup: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _TAGS:
            self.found.append(f"<{tag}>")
        self.found += [f"{tag} {name}={value}" for name, value in attrs if not _is_harmless(name, value or "")]


def _is_harmless(name: str, value: str) -> bool:
    if name == "href":
        # A browser reads an address without tabs and line ends, and without controls before it.
        bare = re.sub(r"[\t\n\r]", "", value).lstrip("".join(map(chr, range(33)))).lower()
        scheme = _SCHEME.match(bare)
        return scheme is None or scheme[1] in ("http", "https", "mailto")
    return name in _ATTRIBUTES and (name != "style" or _STYLE.fullmatch(value) is not None)


def acting(markup: str) -> list[str]:
    """What could act in some HTML: tags, attributes and addresses that the words alone do not make."""
    return _Acting(markup).found
