"""Listing and searching folders, with bounds. Hidden files and links are left out: they may lead outside the folder.

Files that git ignores are listed: data sets are often among them.
"""

import os
import re
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from pathspec import GitIgnoreSpec

from agent_kernel.errors import ToolFailed
from agent_kernel.tools.paths import existing, is_binary

_ENTRIES = 500
_MATCHES = 200
_SCANNED = 50_000
SECONDS = 20.0
_FILE_BYTES = 5 * 1024 * 1024
_SHOWN = 300
_CUT = f"... [only the first {_SCANNED:,} files were looked at; give a folder] ..."
_HEAVY = {"node_modules", "__pycache__", "site-packages"}


def list_files(root: Path, path: str = ".", pattern: str | None = None) -> str:
    """The entries of a folder, or all files below it that match. Raises `ToolFailed`."""
    folder = existing(path, root)
    if not folder.is_dir():
        raise ToolFailed(f"{path!r} is a file. Use read_file.")
    walk = _Walk(folder, pattern)
    entries = _children(folder, path) if pattern is None else (_with_size(_relative(f, folder), f) for f in walk)
    lines = list(islice(entries, _ENTRIES + 1))
    if len(lines) > _ENTRIES:
        lines[_ENTRIES:] = [f"... [more than {_ENTRIES} entries; give a folder or a pattern] ..."]
    if walk.cut:
        lines.append(_CUT)
    if not lines:
        return f"No files match {pattern!r} in {path}." if pattern else f"{path} is empty."
    return "\n".join(lines)


def search_files(
    root: Path, query: str, path: str = ".", pattern: str | None = None, regex: bool = False, ignore_case: bool = False
) -> str:
    """`path:line: text` of each matching line. Raises `ToolFailed`."""
    try:
        wanted = re.compile(query if regex else re.escape(query), re.IGNORECASE if ignore_case else 0)
    except re.error as error:
        raise ToolFailed(f"The query is not a regular expression: {error}.") from None
    start = existing(path, root)
    walk = _Walk(start, pattern)
    found, skipped = _search(walk if start.is_dir() else [start], wanted, root)
    if walk.cut:
        found.append(_CUT)
    if skipped:
        found.append(f"({skipped} binary, unreadable or very large files were not searched)")
    return "\n".join(found) if found else f"No match for {query!r} in {path}."


def _search(files: Iterable[Path], wanted: re.Pattern[str], root: Path) -> tuple[list[str], int]:
    """The matches, and how many files could not be searched."""
    deadline = time.monotonic() + SECONDS
    found: list[str] = []
    skipped = 0
    for file in files:
        matches = _matches(file, wanted, _relative(file, root), deadline)
        skipped += matches is None
        found.extend(matches or ())
        if len(found) > _MATCHES:
            found[_MATCHES:] = [f"... [more than {_MATCHES} matches; make the query narrower] ..."]
            break
        if time.monotonic() > deadline:
            found.append(f"... [stopped after {SECONDS:.0f} s; give a folder or a pattern] ...")
            break
    return found, skipped


def _children(folder: Path, shown: str) -> Iterator[str]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise ToolFailed(f"{shown!r} can't be listed: {error.strerror}.") from None
    for entry in entries:
        if not entry.name.startswith("."):
            yield f"{entry.name}/" if _is_folder(entry) else _with_size(entry.name, Path(entry.path))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


class _Walk:
    """Files below a folder, its own before those of its folders; `cut` where there were too many to look at."""

    def __init__(self, folder: Path, pattern: str | None) -> None:
        self.cut = False
        self._folder = folder
        self._spec = GitIgnoreSpec.from_lines([pattern]) if pattern else None

    def __iter__(self) -> Iterator[Path]:
        scanned = 0
        for directory, folders, names in os.walk(self._folder):
            folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _HEAVY)
            for name in sorted(names):
                scanned += 1
                if scanned > _SCANNED:
                    self.cut = True
                    return
                file = Path(directory, name)
                if not name.startswith(".") and not file.is_symlink() and self._wanted(file):
                    yield file

    def _wanted(self, file: Path) -> bool:
        return self._spec is None or bool(self._spec.match_file(_relative(file, self._folder)))


def _matches(file: Path, wanted: re.Pattern[str], shown: str, deadline: float) -> list[str] | None:
    found: list[str] = []
    try:
        if file.stat().st_size > _FILE_BYTES or not file.is_file() or is_binary(file):
            return None
        with file.open(encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                if (match := wanted.search(line.rstrip("\r\n"))) is not None:
                    found.append(f"{shown}:{number}: {_around(line.rstrip(), match)}")
                if len(found) > _MATCHES or time.monotonic() > deadline:
                    break
    except OSError:
        return None
    return found


def _around(line: str, match: re.Match[str]) -> str:
    if len(line) <= _SHOWN:
        return line
    first = max(0, match.start() - _SHOWN // 3)
    return f"{'...' if first else ''}{line[first : first + _SHOWN]}..."


def _relative(file: Path, folder: Path) -> str:
    try:
        return file.relative_to(os.path.realpath(folder)).as_posix()
    except ValueError:
        return str(file)


def _with_size(name: str, path: Path) -> str:
    try:
        return f"{name}  ({_size(path.stat().st_size)})"
    except OSError:
        return f"{name}  (a broken link)"


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 10 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
