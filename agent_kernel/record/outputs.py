"""A call's outputs as the record keeps them: text, tables and pictures, each bounded."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from agent_kernel.protocol.views import OutputView, ToolCallView
from agent_kernel.tools.truncation import TextLimits, truncate

_TEXT = TextLimits(characters=10_000, lines=400)
_HTML = 200_000
_IMAGE = 2_000_000
_IMAGES = ("image/png", "image/jpeg")
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


@dataclass(frozen=True, slots=True)
class Shown:
    kind: Literal["text", "error", "html", "markdown", "image"]
    text: str
    """The content; of an image, what it is in words. Outputs are as the tool made them: not sanitised."""
    image_type: str = ""
    image: str = ""
    """Base64."""
    plain: str = ""
    """What stands for HTML where there is no HTML."""

    @property
    def size(self) -> int:
        return len(self.text) + len(self.image)


def shown_outputs(call: ToolCallView) -> Iterator[Shown]:
    """The outputs, or the result's text where there are none or where it says more."""
    if call.state in ("denied", "invalid", "superseded", "expired", "awaiting_approval", "proposed"):
        return
    outputs = [] if call.tool_name == "run_shell" and call.result else list(_settled(call.outputs))
    if not outputs and call.result:
        yield Shown("error" if call.state == "error" else "text", _bounded(call.result))
    for output in _merged(outputs):
        yield from _shown(output)


def _settled(outputs: list[OutputView]) -> Iterator[OutputView]:
    """What is left after clears and after displays that replaced an earlier one."""
    start = max((index + 1 for index, output in enumerate(outputs) if output.kind == "clear"), default=0)
    kept = outputs[start:]
    last = {output.display_id: output for output in kept if output.display_id}
    seen: set[str] = set()
    for output in kept:
        if output.display_id is None:
            yield output
        elif output.display_id not in seen:
            seen.add(output.display_id)
            yield last[output.display_id]


def _merged(outputs: list[OutputView]) -> Iterator[OutputView]:
    """Neighbouring chunks of a stream are one text."""
    texts: list[str] = []
    for output in outputs:
        if output.kind == "stream":
            texts.append(output.text)
            continue
        if texts:
            yield OutputView(kind="stream", text="".join(texts))
            texts = []
        yield output
    if texts:
        yield OutputView(kind="stream", text="".join(texts))


def _shown(output: OutputView) -> Iterator[Shown]:
    match output.kind:
        case "stream" | "error":
            text = _bounded(output.text)
            if text.strip():
                yield Shown("error" if output.kind == "error" else "text", text)
        case "display":
            yield from _display(output.data)
        case "clear":
            return


def _display(data: dict[str, Any]) -> Iterator[Shown]:
    plain = _bounded(_content(data, "text/plain"))
    for image_type in _IMAGES:
        image = "".join(_content(data, image_type).split())
        if image and len(image) <= _IMAGE and _BASE64.fullmatch(image):
            yield Shown("image", plain or "Image", image_type=image_type, image=image)
            return
    html = _content(data, "text/html")
    markdown = _content(data, "text/markdown")
    if html and len(html) <= _HTML:
        yield Shown("html", html, plain=plain)
    elif markdown:
        yield Shown("markdown", _bounded(markdown))
    elif plain:
        yield Shown("text", plain)
    elif data:
        yield Shown("text", f"({', '.join(sorted(map(str, data)))[:200]}: not kept in this record)")


def _content(data: dict[str, Any], kind: str) -> str:
    value = data.get(kind)
    if isinstance(value, list):
        return "".join(map(str, value))
    return value if isinstance(value, str) else ""


def _bounded(text: str) -> str:
    return truncate(_on_screen(text).rstrip("\n"), _TEXT).text


def _on_screen(text: str) -> str:
    """Text as a terminal leaves it: no colours, and of a line that was redrawn, the last state."""
    clean = _ANSI.sub("", text).replace("\r\n", "\n")
    if "\r" not in clean:
        return clean
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in clean.split("\n"))
