"""Matches rules on the command of `run_shell`, word by word, against every simple command in it.

A pattern is words: `git status *`. The first is the program, a `*` by itself at the end is any further words or none,
and every other word is a shell pattern (`fnmatch`) for one word.

A rule that denies or asks needs one matching command, wherever it stands: after `;`, in `$(...)`, after `sudo`, in
`sh -c '...'`. The program is compared by its base name, and the pattern also with the text of the whole line. Rules
that allow have to match every command, each by one of them; the program is compared as it is written, a `*` within a
word does not cross a `/`, and the line has to be plain: nothing expanded, redirected to a file, or constructed.
"""

import fnmatch
import glob
import itertools
import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Literal

from agent_kernel.tools.review.hidden import is_visible
from agent_kernel.tools.review.shell_lines import SimpleCommand
from agent_kernel.tools.review.shell_programs import running, spelled_out

_GLOB = frozenset("*?[")
Cover = Literal["yes", "no", "unclear"]
"""Whether a rule covers a call. `unclear` means that it can't be decided; a rule that denies or asks then asks."""


def restricts(pattern: str, line: str) -> Cover:
    """Whether a rule that denies or asks covers a line."""
    if fnmatch.fnmatchcase(line, pattern):
        return "yes"
    seen = running(line)
    answers = {_reaches(pattern, command) for command in seen.commands}
    if "yes" in answers:
        return "yes"
    return "unclear" if "unclear" in answers or not seen.whole else "no"


def restricts_exactly(text: str, line: str) -> Cover:
    """As `restricts`, for a rule on one exact command."""
    return "yes" if line.strip() == text.strip() else restricts(glob.escape(text), line)


def allows(patterns: Iterable[str], line: str) -> bool:
    """Whether rules that allow cover a line together: each of its commands matches one of them."""
    known = [pattern.split() for pattern in patterns]
    seen = running(line) if known else None
    if seen is None or not seen.plain or not seen.written:
        return False
    return all(any(_spans(words, command) for words in known) for command in seen.written)


def _reaches(pattern: str, command: SimpleCommand) -> Cover:
    first, *rest = command.words
    if not first.fixed:
        return "unclear"
    program, *more = pattern.split() or [""]
    wanted = [" ".join([name, *more]) for name in {program, program.rpartition("/")[2] or program}]
    wanted += [each.removesuffix(" *") for each in wanted]
    for name in {first.text, command.program, command.program.lower()}:
        text = " ".join([name, *(word.text for word in rest)])
        if any(fnmatch.fnmatchcase(text, each) for each in wanted):
            return "yes"
    known = " ".join([command.program, *(word.text for word in itertools.takewhile(lambda word: word.fixed, rest))])
    if all(word.fixed for word in rest):
        return "no"
    beginnings = [re.split(r"[*?\[]", each)[0] for each in wanted]
    # The words that are not known may complete a match, if the fixed beginnings of both agree.
    return "unclear" if any(known.startswith(each) or each.startswith(known) for each in beginnings) else "no"


def _spans(wanted: list[str], command: SimpleCommand) -> bool:
    words = [word.text for word in command.words]
    fixed = next((place for place, piece in enumerate(wanted) if _GLOB & set(piece)), len(wanted))
    if fixed < spelled_out(command):
        return False
    if wanted[-1:] == ["*"]:
        wanted, words = wanted[:-1], words[: len(wanted) - 1]
    return len(words) == len(wanted) and all(map(_fits, words, wanted))


def _fits(word: str, wanted: str) -> bool:
    if wanted == "*" or not _GLOB & set(wanted):
        return wanted in ("*", word)
    return within_folder(word, wanted)


def within_folder(path: str, pattern: str) -> bool:
    """Whether a path matches a pattern, compared folder by folder after `.` and doubled slashes are removed. A hidden
    name (`.env`) matches only a pattern that names its dot; one with invisible or control characters never matches."""
    parts, wanted = PurePosixPath(path).parts, PurePosixPath(pattern).parts
    if ".." in parts or "\\" in path or len(parts) != len(wanted) or not is_visible(path):
        return False
    return all(
        fnmatch.fnmatchcase(part, pattern) and (not part.startswith(".") or pattern.startswith("."))
        for part, pattern in zip(parts, wanted, strict=True)
    )
