"""What of a record is compared, when a notebook is run as a test: all of it but what a run and its replay differ in.

A person records a notebook and saves it; a test plays the recording. Both records tell the same, except for the ids,
times, durations and figures, the model's name and who decided. `agent_kernel.record.formats` marks those.
"""

import re
from dataclasses import dataclass
from html.parser import HTMLParser

from agent_kernel.models.recordings.normalise import PROGRESS
from agent_kernel.protocol.vocabulary import RECORDING_CHANGED
from agent_kernel.tools.walls.inside import SAID

_RECORD = 'data-agent-record="'
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,16}\b")
_BLOCKS = {"blockquote", "details", "div", "li", "ol", "p", "pre", "summary", "table", "tr", "ul"}
_VOID = {"br", "col", "hr", "img"}


@dataclass(frozen=True, slots=True)
class ComparableRecord:
    text: str
    """Everything that the record says, a line for each block, without what varies."""
    error: str
    """Why the run failed or was stopped; empty if it did neither."""
    changes: tuple[str, ...]
    """Notices that the recording differed and was played all the same. They are not in the text."""
    pictures: tuple[str, ...]
    """The `data:` addresses of the pictures. The text has a number in place of each."""


def is_record(html: str) -> bool:
    """Whether a bundle's HTML is the record of a run."""
    return html.lstrip().startswith("<div") and _RECORD in html[:500]


def comparable(html: str) -> ComparableRecord:
    """Reduce a record's HTML to what is compared. Linear in its size."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return ComparableRecord(
        text=_without_gaps(SAID.sub("...", without_chance("".join(reader.pieces)))),
        error=reader.error,
        changes=tuple(reader.changes),
        pictures=tuple(reader.pictures),
    )


def without_chance(text: str) -> str:
    """Text without addresses of memory, as in `<Figure at 0x7f3a5c0d2e10>`, and the times of progress bars."""
    return PROGRESS.sub("[...", _ADDRESS.sub("0x...", text))


def _without_gaps(text: str) -> str:
    lines = (line.rstrip() for line in text.split("\n"))
    return "\n".join(line for line in lines if line)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self.error = ""
        self.changes: list[str] = []
        self.pictures: list[str] = []
        self._open: list[tuple[str, str, int]] = []
        """The open elements: tag, role, and the number of pieces before each."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in _BLOCKS or tag == "br":
            self.pieces.append("\n")
        if tag == "img":
            self.pictures.append(given.get("src") or "")
            self.pieces.append(f"(picture {len(self.pictures)})")
        if tag not in _VOID:
            self._open.append((tag, given.get("data-role") or "", len(self.pieces)))

    def handle_endtag(self, tag: str) -> None:
        while self._open:
            opened, role, start = self._open.pop()
            if opened == tag:
                self._ended(tag, role, start)
                break
        if tag in _BLOCKS:
            self.pieces.append("\n")

    def handle_data(self, data: str) -> None:
        self.pieces.append(data)

    def _ended(self, tag: str, role: str, start: int) -> None:
        if role == "varies":
            del self.pieces[start:]
        elif role == "error":
            self.error = "".join(self.pieces[start:]).strip()
        elif tag in ("div", "details") and "".join(self.pieces[start : start + 3]).lstrip().startswith(
            RECORDING_CHANGED
        ):
            self.changes.append(_without_gaps("".join(self.pieces[start:])))
            del self.pieces[start:]
