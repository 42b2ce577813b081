"""Reduces a call's outputs to what the record contains: text, tables, formulas and pictures, each bounded."""

import base64
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Any, Literal

from agent_kernel.execution.long_tables import WHOLE
from agent_kernel.protocol.views import OutputView, ToolCallView
from agent_kernel.record import words
from agent_kernel.record.results import WIDGET_VIEW, Place, Results, joined
from agent_kernel.record.texts import bounded, without_colours

_HTML = 200_000
_IMAGE = 2_000_000
_IMAGES = ("image/png", "image/jpeg")
_DRAWING = "image/svg+xml"
_SVG_BEGINS = 5_000
"""The characters in which an `<svg>` has to begin, after an XML declaration, a document type and comments."""
_NAMESPACE = re.compile(r"<svg[^>]{0,5000}\sxmlns=")
_AROUND_COMMAND = re.compile(r"\Awalls: [^\n]*\n|\n?Exit code: 0\s*\Z")
"""What the record says of a command elsewhere: its walls, and that it is done."""
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")

_DISPLAYS = {
    "application/vnd.jupyter.widget-view+json": "widget",
    "application/vnd.plotly.v1+json": "Plotly chart",
    "image/png": "picture",
    "image/jpeg": "picture",
    "image/svg+xml": "picture",
    "text/latex": "formula",
    "text/markdown": "text",
    "application/json": "JSON",
    "application/javascript": "script",
    "application/geo+json": "map",
}


@dataclass(frozen=True, slots=True)
class RecordOutput:
    kind: Literal["text", "error", "html", "markdown", "latex", "image"]
    text: str
    """The content, or the description of an image. It is not sanitised, and a text has its colours."""
    image_type: str = ""
    image: str = ""
    """The image in base64, if it is one."""
    plain: str = ""
    """The text for formats without HTML."""
    name: str = ""
    """The kind of display, for the reader: `table`, `Plotly chart`."""
    place: Place = "here"

    @property
    def size(self) -> int:
        return len(self.text) + len(self.image)


def settled_outputs(call: ToolCallView) -> list[OutputView]:
    """The outputs of a call as they are at its end; of a command its result, which contains them and how it ended."""
    if call.state in ("denied", "invalid", "superseded", "expired", "awaiting_approval", "proposed"):
        return []
    if call.tool_name == "run_shell" and call.result:
        return [OutputView(kind="stream", text=_AROUND_COMMAND.sub("", call.result))]
    return list(_merged(_settled(call.outputs)))


def shown_outputs(
    call: ToolCallView, call_number: int, outputs: Sequence[OutputView], results: Results
) -> Iterator[RecordOutput]:
    """The outputs, or the result's text if there are none or it says more."""
    if call.state in ("denied", "invalid", "superseded", "expired", "awaiting_approval", "proposed"):
        return
    if not outputs and call.result:
        yield _text(call.result, "error" if call.state == "error" else "text")
    for number, output in enumerate(outputs):
        place = results.place(call_number, number)
        for shown in _shown(output):
            yield replace(shown, place=place)


def _settled(outputs: list[OutputView]) -> Iterator[OutputView]:
    """The outputs that remain after clears and replaced displays."""
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


def _merged(outputs: Iterable[OutputView]) -> Iterator[OutputView]:
    """Join adjacent chunks of a stream."""
    for kind, same in groupby(outputs, key=attrgetter("kind")):
        if kind == "stream":
            yield OutputView(kind="stream", text="".join(output.text for output in same))
        else:
            yield from same


def _shown(output: OutputView) -> Iterator[RecordOutput]:
    match output.kind:
        case "stream" | "error":
            if (shown := _text(output.text, "error" if output.kind == "error" else "text")).plain.strip():
                yield shown
        case "display":
            yield from _display(output.data)
        case "clear":
            return


def _text(text: str, kind: Literal["text", "error"] = "text", name: str = "text") -> RecordOutput:
    kept = bounded(text)
    return RecordOutput(kind, kept, plain=without_colours(kept), name=name)


def _display(data: dict[str, Any]) -> Iterator[RecordOutput]:
    text = _content(data, "text/plain")
    plain = without_colours(bounded(text))
    name = _display_name(data)
    if (image := _image(data)) is not None:
        yield RecordOutput("image", plain or "Image", image_type=image[0], image=image[1], name=name)
        return
    html, markdown = _content(data, "text/html").partition(WHOLE)[0], _content(data, "text/markdown")
    if latex := _content(data, "text/latex").strip():
        yield RecordOutput("latex", bounded(latex), plain=plain, name=name)
    elif html and len(html) <= _HTML:
        yield RecordOutput("html", html, plain=plain, name=name)
    elif markdown:
        yield RecordOutput("markdown", bounded(markdown), name=name)
    elif WIDGET_VIEW in data:
        yield _text(f"{plain}\n({words.WIDGET})".lstrip("\n"), name=name)
    elif plain:
        yield _text(text, name=name)
    elif data:
        yield _text(f"({', '.join(sorted(map(str, data)))[:200]}: not kept in this record)", name=name)


def _display_name(data: Mapping[str, object]) -> str:
    """A description of a display that is the same for each run, unlike its plain text, which may contain addresses."""
    for kind, name in _DISPLAYS.items():
        if kind in data:
            return name
    if any(kind.startswith(("application/vnd.vega", "application/vnd.altair")) for kind in data):
        return "Vega chart"
    if "text/html" in data:
        return "table" if "<table" in str(data["text/html"])[:20_000] else "HTML"
    return next((kind for kind in data if kind != "text/plain"), "text")[:100]


def _image(data: dict[str, Any]) -> tuple[str, str] | None:
    """The MIME type and base64 of an image. SVG is shown as an image too, in which scripts do not run."""
    for image_type in _IMAGES:
        image = "".join(_content(data, image_type).split())
        if image and len(image) <= _IMAGE and _BASE64.fullmatch(image):
            return image_type, image
    drawing = _content(data, _DRAWING)
    if "<svg" not in drawing[:_SVG_BEGINS] or len(drawing) > _IMAGE or "<!ENTITY" in drawing:
        return None
    if not _NAMESPACE.search(drawing):
        drawing = drawing.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    return _DRAWING, base64.b64encode(drawing.encode("utf-8", "replace")).decode()


def _content(data: dict[str, Any], kind: str) -> str:
    value = joined(data.get(kind))
    if not isinstance(value, str):
        return ""
    return value if value.isascii() else value.encode("utf-8", "replace").decode()
