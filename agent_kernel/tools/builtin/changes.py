"""Reads text files, and plans the change of one before making it. The tools and their cards both use the plan.

`root` is the notebook's folder; results are text for the model.
"""

import hashlib
import os
import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from agent_kernel.errors import ToolFailed
from agent_kernel.tools.builtin.declarations import MOST_CHANGED
from agent_kernel.tools.builtin.line_changes import trimmed
from agent_kernel.tools.builtin.paths import (
    PROBED,
    TextFile,
    existing,
    failed,
    is_binary,
    place_of,
    read_text,
    write_text,
)
from agent_kernel.tools.builtin.safe_open import read_start

_MATCHES_SHOWN = 10
_NEAR_WANTED = 200
_NEAR_SHOWN = 2_000


@dataclass(frozen=True, slots=True)
class Edit:
    """One replacement, in text with normalised line ends."""

    old_text: str
    new_text: str
    places: int
    everywhere: bool


class ChangeTooLarge(ToolFailed):
    """The change is too large to be reviewed, so it is refused without asking."""


@dataclass(frozen=True, slots=True)
class FileChange:
    target: Path
    existed: bool
    before: TextFile | None
    """The old content; `None` if there is no file or it is not text."""
    after: TextFile
    edit: Edit | None = None
    """The replacement; `None` if the whole file is written."""

    def base(self) -> str:
        """Identifies the existing file and its content, so that nothing else is overwritten."""
        if self.before is not None:
            held = f"{self.before.encoding}\0{self.before.newline}\0{self.before.text}"
        elif self.existed:
            found = self.target.lstat()
            held = f"{found.st_ino} {found.st_size} {found.st_mtime_ns}"
        else:
            held = ""
        return hashlib.sha256(f"{self.target}\0{held}".encode(errors="surrogatepass")).hexdigest()


def refuse_another_base(change: FileChange, base: str, path: str) -> None:
    """Raise `ToolFailed` if the file has changed since a person was shown this change.

    An edit of one place is exempt: its text still exists exactly once, whatever else was changed.
    """
    if (change.edit is None or change.edit.everywhere) and change.base() != base:
        raise ToolFailed(
            f"{path!r} was changed after this call was shown to the user. Nothing was written. Read the file, then "
            "send a new call."
        )


def planned_change(root: Path, name: str, arguments: dict[str, Any], approved: Path | None = None) -> FileChange | None:
    """The change that a call would make; `None` for a tool that changes no file. Raises `ToolFailed`."""
    match name:
        case "write_file":
            return planned_write(root, **arguments, approved=approved)
        case "edit_file":
            return planned_edit(root, **arguments, approved=approved)
        case _:
            return None


def planned_write(root: Path, path: str, content: str, approved: Path | None = None) -> FileChange:
    """Raises `ToolFailed`."""
    target = place_of(path, root, approved)
    existed = os.path.lexists(target)
    before = _before(target, path) if existed else None
    if before is None:
        return FileChange(target, existed, None, TextFile(content, "utf-8", "\n"))
    if before.newline == "\r\n":
        content = content.replace("\r\n", "\n")
    # Text that the file's encoding can't represent changes it to UTF-8.
    encoding = before.encoding if before.encoding != "latin-1" else "utf-8"
    return FileChange(target, existed, before, TextFile(content, encoding, before.newline))


def planned_edit(
    root: Path, path: str, old_text: str, new_text: str, replace_all: bool = False, *, approved: Path | None
) -> FileChange:
    """Raises `ToolFailed`."""
    target = existing(path, root, approved)
    before = read_text(target, path)
    if before.newline == "\r\n":
        old_text, new_text = old_text.replace("\r\n", "\n"), new_text.replace("\r\n", "\n")
    if not old_text:
        raise ToolFailed("old_text is empty. Give the text to replace, or use write_file.")
    if old_text == new_text:
        raise ToolFailed("old_text and new_text are the same; nothing would change.")
    found = before.text.count(old_text)
    if found == 0:
        raise ToolFailed(f"old_text is not in {path!r}. {_nearest(before.text, old_text)}")
    if found > 1 and not replace_all:
        lines = ", ".join(map(str, _lines_of(before.text, old_text)))
        raise ToolFailed(
            f"old_text occurs {found} times in {path!r} (lines {lines}). Take in more lines around it, or set "
            "replace_all."
        )
    if found * (len(old_text) + len(new_text)) > MOST_CHANGED:
        raise ChangeTooLarge(
            f"This would change {found * (len(old_text) + len(new_text)):,} characters of {path!r}. One call may "
            f"change {MOST_CHANGED:,}, because the user reads what changes. Change less at once, or use run_python."
        )
    after = TextFile(before.text.replace(old_text, new_text), before.encoding, before.newline)
    return FileChange(target, True, before, after, Edit(old_text, new_text, found, replace_all))


def _before(target: Path, path: str) -> TextFile | None:
    """A file's text; `None` for a binary file."""
    try:
        binary = is_binary(read_start(target, PROBED))
    except OSError as error:
        raise failed(error, path, "written") from None
    return None if binary else read_text(target, path)


def split_lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _lines_of(text: str, part: str) -> list[int]:
    """The numbers of the lines in which a part begins, at its first places."""
    places = islice(re.finditer(re.escape(part), text), _MATCHES_SHOWN)
    return [text.count("\n", 0, place.start()) + 1 for place in places]


def _nearest(text: str, wanted: str) -> str:
    """The part of the file around the longest line of the wanted text that it has, or advice if it has none."""
    lines, looked_for = split_lines(text), [line.strip() for line in split_lines(wanted)[:_NEAR_WANTED]]
    places = {line.strip(): number for number, line in reversed(list(enumerate(lines)))}
    offset = max(
        (place for place, line in enumerate(looked_for) if line and line in places),
        key=lambda place: len(looked_for[place]),
        default=None,
    )
    if offset is None:
        return "Read the file again; spaces and line ends must be the same."
    first = max(0, places[looked_for[offset]] - offset)
    piece = lines[first : first + len(looked_for)]
    shown = "\n".join(piece)[:_NEAR_SHOWN]
    return f"The nearest text is at lines {first + 1} to {first + len(piece)}:\n{shown}"


def read_file(root: Path, path: str, offset: int = 1, limit: int = 1000, approved: Path | None = None) -> str:
    """Read lines of a text file, under a heading that says which. Raises `ToolFailed`."""
    content = read_text(existing(path, root, approved), path)
    lines = split_lines(content.text)
    note = "" if content.encoding == "utf-8" else f", {content.encoding}"
    if not lines:
        return f"{path}: an empty file{note}"
    if offset > len(lines):
        raise ToolFailed(f"{path!r} has {len(lines)} lines; line {offset} is past its end.")
    last = min(len(lines), offset - 1 + limit)
    more = f". Read on with offset={last + 1}" if last < len(lines) else ""
    body = "\n".join(lines[offset - 1 : last])
    return f"{path}: lines {offset} to {last} of {len(lines)}{note}{more}\n{body}"


def carry_out(change: FileChange, path: str) -> str:
    """Make the change. Raises `ToolFailed`."""
    write_text(change.target, path, change.after)
    if change.edit is not None:
        places = f" in {change.edit.places} places" if change.edit.places > 1 else ""
        return f"Edited {path}{places}: {_changes(change.before, change.after)}."
    if change.before is None:
        count = len(split_lines(change.after.text))
        lines = "1 line" if count == 1 else f"{count:,} lines"
        return f"{'Replaced' if change.existed else 'Created'} {path}: {lines}."
    return f"Replaced {path}: {_changes(change.before, change.after)}."


def _changes(before: TextFile | None, after: TextFile) -> str:
    """A summary such as `+3 -2 lines`, of what lies between the common start and end of the texts. Linear."""
    old, new = split_lines(before.text if before else ""), split_lines(after.text)
    start, end, new_end = trimmed(old, new)
    return f"+{new_end - start} -{end - start} lines"
