"""Compares the outputs of a cell with those that its notebook has saved: records and pictures; nbval does the rest."""

import base64
import binascii
import copy
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_kernel.protocol.vocabulary import OPEN_RUN_MARK, RESULT_MARK
from agent_kernel.record.comparable import comparable, is_record, without_chance

Output = dict[str, Any]
"""An output in nbformat."""

_RECORD = "agent record"
"""What stands for the formats of a record, in a comparison and in what it reports."""
_PICTURES = ("image/jpeg", "image/png")
_SVG = "image/svg+xml"
_EMBEDDED = re.compile(r"data:image/(?:png|jpe?g);base64,([A-Za-z0-9+/=\s]*)")
_EMBEDDED_SVG = re.compile(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=\s]*)")

_SVG_ID = re.compile(r'\bid="([^"]+)"')
_SVG_REFERENCE = re.compile(r"""(?<=["'(])#([^"')\s]+)""")
_SVG_METADATA = re.compile(r"<metadata>.*?</metadata>|<!--.*?-->", re.DOTALL)


@dataclass(slots=True)
class Outputs:
    """The outputs of a cell, as they are compared."""

    rest: list[Output] = field(default_factory=list)
    """The outputs without pictures, and with a text in place of each record."""
    pictures: list[bytes] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """Why runs failed."""
    changes: list[str] = field(default_factory=list)
    """Where recordings differed and were played all the same."""
    has_record: bool = False
    of_open_run: bool = False
    """Whether they were saved while a run went on, so they show how it stood."""


def read_outputs(outputs: Sequence[Output]) -> Outputs:
    """Reduce outputs to what is compared. The outputs themselves stay as they are."""
    found = Outputs()
    for output in outputs:
        data = output.get("data")
        metadata = output.get("metadata") or {}
        found.of_open_run |= OPEN_RUN_MARK in metadata
        if isinstance(data, dict):
            changed = copy.copy(output)
            of_a_run = RESULT_MARK in metadata
            changed["data"] = dict(_compared_data(data, found, of_a_run=of_a_run))
            found.rest.append(changed)
        else:
            found.rest.append(output)
    return found


def _compared_data(data: Output, found: Outputs, *, of_a_run: bool) -> Iterator[tuple[str, Any]]:
    html = _text(data.get("text/html"))
    if is_record(html):
        yield _RECORD, _record(html, found)
        return
    for kind in sorted(data):
        text = _text(data[kind])
        if kind in _PICTURES:
            found.pictures.append(_bytes(text))
        elif kind == _SVG:
            yield kind, comparable_svg(text)
        elif kind == "text/html":
            yield kind, _cleaned(_without_pictures(text, found), of_a_run)
        else:
            yield kind, _cleaned(text, of_a_run) if text else data[kind]


def _record(html: str, found: Outputs) -> str:
    record = comparable(html)
    found.has_record = True
    found.changes.extend(record.changes)
    if record.error:
        found.errors.append(record.error)
    drawings = [_without_pictures(address, found) for address in record.pictures]
    return "\n".join([record.text, *(drawing for drawing in drawings if _SVG in drawing)])


def _without_pictures(html: str, found: Outputs) -> str:
    def taken(match: re.Match[str]) -> str:
        found.pictures.append(_bytes(match[1]))
        return "(a picture)"

    def read(match: re.Match[str]) -> str:
        return f"data:{_SVG},{comparable_svg(_bytes(match[1]).decode('utf-8', 'replace'))}"

    return _EMBEDDED_SVG.sub(read, _EMBEDDED.sub(taken, html))


def comparable_svg(text: str) -> str:
    """An SVG without its metadata and comments, and with its ids counted, because matplotlib makes them up."""
    bare = _SVG_METADATA.sub("", text)
    names = {name: f"id-{number}" for number, name in enumerate(dict.fromkeys(_SVG_ID.findall(bare)), start=1)}
    counted = _SVG_ID.sub(lambda found: f'id="{names[found[1]]}"', bare)
    return _SVG_REFERENCE.sub(lambda found: f"#{names.get(found[1], found[1])}", counted)


def _cleaned(text: str, of_a_run: bool) -> str:
    return without_chance(text) if of_a_run else text


def _text(value: Any) -> str:
    """A text, which nbformat allows to be a list of lines; empty for other data."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "".join(value)
    return value if isinstance(value, str) else ""


def _bytes(base64_text: str) -> bytes:
    """The bytes of a picture; the text itself, if it is no base64, so that it is still compared."""
    try:
        return base64.b64decode("".join(base64_text.split()), validate=True)
    except binascii.Error:
        return base64_text.encode()
