"""Lists and searches folders within bounds. Hidden files are skipped, and so are links, which may lead elsewhere.

Files that git ignores are included, because data sets are often among them.
"""

import io
import os
import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path

from pathspec import GitIgnoreSpec

from agent_kernel.errors import ToolFailed
from agent_kernel.tools.builtin.paths import PROBED, existing, failed, is_binary
from agent_kernel.tools.builtin.safe_open import OpenFolder, open_folder

ENTRIES = 500
_MATCHES = 200
SCANNED = 50_000
_DEPTH = 100
"""The deepest nesting, because each folder on the way to a file is held open."""
_FILE_BYTES = 5 * 1024 * 1024
_SHOWN = 300
_TOO_MANY = f"... [only the first {SCANNED:,} files were looked at; give a folder] ..."
_TOO_DEEP = f"... [only {_DEPTH} folders deep was looked; give a folder] ..."
_HEAVY = {"node_modules", "__pycache__", "site-packages"}


def list_files(root: Path, path: str = ".", pattern: str | None = None, approved: Path | None = None) -> str:
    """List a folder, or all files below it that match a pattern. Raises `ToolFailed`."""
    place = existing(path, root, approved)
    with _opened(place, path) as folder:
        walk = _Walk(folder, pattern)
        found = (_with_size(shown, entry) for _, entry, shown in walk)
        with closing(_children(folder, path) if pattern is None else found) as entries:
            lines = list(islice(entries, ENTRIES + 1))
    if len(lines) > ENTRIES:
        lines[ENTRIES:] = [f"... [more than {ENTRIES} entries; give a folder or a pattern] ..."]
    if walk.cut:
        lines.append(walk.cut)
    if not lines:
        return f"No files match {pattern!r} in {path}." if pattern else f"{path} is empty."
    return "\n".join(lines)


def search_files(
    root: Path,
    query: str,
    path: str = ".",
    pattern: str | None = None,
    regex: bool = False,
    ignore_case: bool = False,
    approved: Path | None = None,
) -> str:
    """Search files; each matching line is listed as `path:line: text`. Raises `ToolFailed`."""
    try:
        wanted = re.compile(query if regex else re.escape(query), re.IGNORECASE if ignore_case else 0)
    except re.error as error:
        raise ToolFailed(f"The query is not a regular expression: {error}.") from None
    place = existing(path, root, approved)
    shown = _relative(place, root)
    cut = ""
    if place.is_dir():
        with _opened(place, path) as folder:
            walk = _Walk(folder, pattern)
            prefix = "" if shown == "." else f"{shown}/"
            files = ((below, entry.name, f"{prefix}{name}") for below, entry, name in walk)
            with closing(files):
                found, skipped = _search(files, wanted)
        cut = walk.cut
    else:
        with _opened(place.parent, path) as folder:
            found, skipped = _search([(folder, place.name, shown)], wanted)
    if cut:
        found.append(cut)
    if skipped:
        found.append(f"({skipped} binary, unreadable or very large files were not searched)")
    return "\n".join(found) if found else f"No match for {query!r} in {path}."


def _opened(place: Path, path: str) -> OpenFolder:
    try:
        return open_folder(place, listed=True)
    except OSError as error:
        if place.is_file():
            raise ToolFailed(f"{path!r} is a file. Use read_file.") from None
        raise failed(error, path, "listed") from None


def _search(files: Iterable[tuple[OpenFolder, str, str]], wanted: re.Pattern[str]) -> tuple[list[str], int]:
    """The matches, and the number of files that could not be searched."""
    found: list[str] = []
    skipped = 0
    for folder, name, shown in files:
        matches = _matches(folder, name, wanted, shown)
        skipped += matches is None
        found.extend(matches or ())
        if len(found) > _MATCHES:
            found[_MATCHES:] = [f"... [more than {_MATCHES} matches; make the query narrower] ..."]
            break
    return found, skipped


def _children(folder: OpenFolder, shown: str) -> Generator[str]:
    try:
        entries = sorted(folder.entries(), key=lambda entry: entry.name)
    except OSError as error:
        raise ToolFailed(f"{shown!r} can't be listed: {error.strerror}.") from None
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_symlink():
            yield f"{entry.name}  ({_link(folder, entry.name)})"
        else:
            yield f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else _with_size(entry.name, entry)


def _link(folder: OpenFolder, name: str) -> str:
    """The target of a link, for display."""
    try:
        return f"a link to {os.fsencode(folder.link_target(name)[:_SHOWN]).decode(errors='replace')}"
    except OSError:
        return "a link"


_File = tuple[OpenFolder, os.DirEntry[str], str]
"""A file's folder, which stays open until the next file is requested, its entry there, and its path from the start of
the walk."""


class _Walk:
    """Files below a folder, its own before those of its folders; `cut` says so where there were too many to look at."""

    def __init__(self, folder: OpenFolder, pattern: str | None) -> None:
        self.cut = ""
        self._folder = folder
        self._spec = GitIgnoreSpec.from_lines([pattern]) if pattern else None
        self._scanned = 0

    def __iter__(self) -> Iterator[_File]:
        return self._below(self._folder, "", 0)

    def _below(self, folder: OpenFolder, path: str, depth: int) -> Iterator[_File]:
        folders, files = _sorted_out(folder)
        for entry in files:
            self._scanned += 1
            if self._scanned > SCANNED:
                self.cut = _TOO_MANY
                return
            shown = path + entry.name
            is_wanted = self._spec is None or self._spec.match_file(shown)
            if not entry.name.startswith(".") and not entry.is_symlink() and is_wanted:
                yield folder, entry, shown
        if folders and depth >= _DEPTH:
            self.cut = _TOO_DEEP
            return
        for name in folders:
            try:
                below = folder.folder(name)
            except OSError:  # not readable, or a link by now
                continue
            with below:
                yield from self._below(below, f"{path}{name}/", depth + 1)
            if self.cut == _TOO_MANY:
                return


def _sorted_out(folder: OpenFolder) -> tuple[list[str], list[os.DirEntry[str]]]:
    """The entries of a folder, split into folders to visit and the rest."""
    folders: list[str] = []
    files: list[os.DirEntry[str]] = []
    with suppress(OSError):
        for entry in sorted(folder.entries(), key=lambda entry: entry.name):
            if not entry.is_dir(follow_symlinks=False):
                files.append(entry)
            elif not entry.name.startswith(".") and entry.name not in _HEAVY:
                folders.append(entry.name)
    return folders, files


def _matches(folder: OpenFolder, name: str, wanted: re.Pattern[str], shown: str) -> list[str] | None:
    found: list[str] = []
    try:
        with os.fdopen(folder.open_file(name), "rb") as raw:
            if os.fstat(raw.fileno()).st_size > _FILE_BYTES or is_binary(raw.peek(PROBED)):
                return None
            with io.TextIOWrapper(raw, encoding="utf-8", errors="replace") as lines:
                for number, line in enumerate(lines, 1):
                    if (match := wanted.search(line.rstrip("\r\n"))) is not None:
                        found.append(f"{shown}:{number}: {_around(line.rstrip(), match)}")
                    if len(found) > _MATCHES:
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


def _with_size(name: str, entry: os.DirEntry[str]) -> str:
    try:
        return f"{name}  ({size_text(entry.stat(follow_symlinks=False).st_size)})"
    except OSError:
        return f"{name}  (gone)"


def size_text(count: float) -> str:
    """A size for display, such as `360 kB`."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 10 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
