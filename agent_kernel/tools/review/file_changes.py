"""Describes, for a card, the file that a call would change: the diff, and facts about the file."""

import os
from pathlib import Path
from typing import Any

from agent_kernel.errors import ToolFailed
from agent_kernel.protocol.calls import Place
from agent_kernel.protocol.file_cards import FileCard
from agent_kernel.protocol.views import Warning
from agent_kernel.tools.builtin.changes import ChangeTooLarge, FileChange, planned_change
from agent_kernel.tools.builtin.paths import TextFile
from agent_kernel.tools.builtin.places import locate, may_read
from agent_kernel.tools.builtin.run_by_themselves import why_change_decides, why_it_runs_there
from agent_kernel.tools.builtin.search import size_text
from agent_kernel.tools.review.shown_diff import ShownDiff, shown_diff

RUNS_BY_ITSELF = "Runs by itself:"
_COMPARED_LINES = 500_000
_PATH = 300
_FAILURE = 300
_LINKS = 3
_ENCODINGS = {"latin-1": "Latin-1", "utf-8-sig": "UTF-8 with a mark", "utf-16": "UTF-16", "utf-32": "UTF-32"}


def file_card(root: Path, name: str, arguments: dict[str, Any], place: Place | None = None) -> FileCard | None:
    """The description for the file as it is now; `None` for a tool that changes no file."""
    path = arguments.get("path")
    if name not in ("write_file", "edit_file") or not isinstance(path, str):
        return None
    place = place if place is not None and place.path else locate(path, root)
    warnings = _warnings(root, path, place)
    try:
        change = planned_change(root, name, arguments, Path(place.path) if place.path else None)
    except ChangeTooLarge as refusal:
        # A refusal reveals something about the file, so the model is told only if it may read the file unasked.
        if may_read(place):
            return FileCard(refusal=str(refusal))
        return FileCard(warnings=warnings, facts=[_fails(refusal)])
    except (ToolFailed, TypeError) as failure:
        return FileCard(warnings=warnings, facts=[_fails(failure)])
    if change is None:
        return None
    warnings += runs_by_itself(why_it_runs_there(place) or why_change_decides(change))
    shown = _shown(change, path)
    facts = _facts(change, root, shown is None)
    diff = shown or ShownDiff("")
    return FileCard(diff=diff.text, left_out=diff.left_out, facts=facts, warnings=warnings, base=change.base())


def runs_by_itself(why: str) -> list[Warning]:
    """The warning of a file that the mode `edit` asks about, with a reason of `run_by_themselves`; none without one."""
    return [Warning(title=RUNS_BY_ITSELF, detail=f"{why}. The mode edit asks, too.")] if why else []


def _fails(failure: Exception) -> str:
    if isinstance(failure, TypeError):
        return "This call can't work: its arguments are not the tool's."
    line = str(failure).split("\n", 1)[0][:_FAILURE]
    return f"As the file is now, this call fails: {line}"


def _shown(change: FileChange, path: str) -> ShownDiff | None:
    """The diff of two texts; `None` if they are too long to be compared."""
    before, after = change.before.text if change.before else "", change.after.text
    if before.count("\n") + after.count("\n") > _COMPARED_LINES:
        return None
    return shown_diff(before, after, path, created=not change.existed)


def _facts(change: FileChange, root: Path, too_long: bool) -> list[str]:
    facts: list[str] = []
    if not change.existed:
        if not change.after.text:
            facts.append("A new, empty file.")
        folder, made = Path(os.path.realpath(root)), change.target.parent
        if not made.exists():
            shown = made.relative_to(folder) if made.is_relative_to(folder) else made
            facts.append(f"Makes the folder {_short(str(shown))}/.")
    elif change.edit is None:
        facts.append(_replaced(change))
    elif change.edit.everywhere:
        places = change.edit.places
        facts.append(f"Changes {places:,} {'place' if places == 1 else 'places'}.")
    if change.edit is None and change.before is not None and change.before.text == change.after.text:
        facts.append("The file holds this already; nothing would change.")
    if too_long:
        facts.append("It is too long to compare.")
    return [*facts, *_encoding(change.before, change.after)]


def _replaced(change: FileChange) -> str:
    size = size_text(change.target.lstat().st_size)
    if change.before is None:
        return f"Replaces a binary file, {size}; it can't be compared."
    lines = len(change.before.text.split("\n")) - change.before.text.endswith("\n") if change.before.text else 0
    return f"Replaces {size}, {lines:,} {'line' if lines == 1 else 'lines'}."


def _encoding(before: TextFile | None, after: TextFile) -> list[str]:
    if before is None or before.encoding == "utf-8":
        return []
    name = _ENCODINGS.get(before.encoding, before.encoding)
    if before.encoding == after.encoding:
        return [f"The file is {name}, not plain UTF-8, and stays so."]
    return [f"The file is not UTF-8 (it is read as {name}); it becomes UTF-8."]


def _warnings(root: Path, path: str, place: Place) -> list[Warning]:
    """Facts about where a path leads, if it is not what it says."""
    try:
        folder = Path(os.path.realpath(root))
        links = [Warning(title="Follows a link:", detail=link) for link in _links(folder, path)]
    except (ValueError, OSError):
        return []  # the call itself reports the error
    if place.inside is not None or not place.path:
        return links
    return [*links, Warning(title="Outside this notebook's folder:", detail=_short(place.path))]


def _links(folder: Path, path: str) -> list[str]:
    """The links in a path with their targets: `notes.md is a link to ../shared/notes.md`."""
    found: list[str] = []
    at, said = folder, Path()
    parts = Path(path).parts
    for part in parts:
        at, said = at / part, said / part
        if at.is_symlink() and len(found) < _LINKS:
            found.append(f"{_short(str(said))} is a link to {_short(str(at.readlink()))}")
    return found


def _short(path: str) -> str:
    """A path as valid text, which a file's name need not be."""
    text = os.fsencode(path).decode(errors="replace")
    return text if len(text) <= _PATH else f"…{text[-_PATH:]}"
