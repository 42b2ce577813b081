"""Declared rules that replace what differs between two runs of the same notebook, so that only the rest is compared.

A date without a time of day is data and stays; so do numbers. The user's own patterns stand in a recording's header.
"""

import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

from agent_kernel.tools.walls.inside import SAID

_VALUE = r"""(?:"[^"\n]*"|'[^'\n]*'|[^\s\\"']+)"""
_FLAG = re.compile(rf"[ \t]+--(?:record|model|on-change)(?:=|[ \t]+){_VALUE}")
_AGENT_LINE = re.compile(r"(?<![\w%])%{1,2}agent[ \t][^\n]{0,1000}")
PROGRESS = re.compile(r"\[\d{1,4}(?::\d\d){1,2}(?:<[\d:?]{1,12})?, {1,4}[\d.?]{1,20}[^\s,\]]{1,12}(?=[,\]])")
"""The times of a tqdm bar, `[00:03<00:01, 24.6it/s`; what it counts stands before them."""


_RULES: tuple[tuple[str | re.Pattern[str], str], ...] = (
    (r"\b(?:conv|run|msg|call|apr|ask|pause)_[0-9a-f]{16,32}\b", "<id>"),
    (r"(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<id>"),
    (r"\b0x[0-9A-Fa-f]{6,16}\b", "<address>"),
    (r"(?<=The output is in )[^\n]{1,1024}?-[0-9a-f]{16}\.txt(?=, up to )", "<output>"),
    (r"(?m)^(Stored outcome of )\d+ minutes?(?= ago\.)", r"\1<duration>"),
    (r"<tmp>/\d{4,20}\.py\b", "<cell>"),
    (r"\b(Cell In|In |Out) ?\[\d+\]", r"\1[<number>]"),
    (PROGRESS, "[<duration>"),
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?", "<time>"),
    (
        r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? (?:\d{1,2} )?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
        r" (?:\d{1,2} |\d{4} )?\d\d:\d\d:\d\d(?: [A-Z]{3,4})?(?: \d{4})?",
        "<time>",
    ),
    (r"\b\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\b", "<time>"),
    (
        r"(?i)\b(in|after|took|takes|time:|elapsed:?|sys:|user|total:)( ?)"
        r"\d+(?:\.\d+)? ?(?:ns|[µu]s|ms|s|sec|seconds|min)\b",
        r"\1\2<duration>",
    ),
    (r"\b\d+(?:\.\d+)? (?:ns|[µu]s|ms|s) ± \d+(?:\.\d+)? (?:ns|[µu]s|ms|s)\b", "<duration>"),
    (r"(?<![\d.])\d{1,4}\.\d{1,4}\.\d{1,6}(?:\.?(?:dev|rc|a|b|post)\d+)?(?![\d.])", "<version>"),
    (SAID, "<walls>"),
    (r"\bPython \d\.\d+\b", "Python <version>"),
)
"""What is replaced, in this order, after the folders."""

_ROOTS = {tempfile.gettempdir(), "/tmp", "/var/tmp"}
_TEMPORARY = re.compile(
    rf"(?:{'|'.join(re.escape(root) for root in sorted(_ROOTS, key=len, reverse=True))}"
    r"|(?:/private)?/var/folders/\w\w/\w+/T|[A-Za-z]:\\Users\\[^\\\s]+\\AppData\\Local\\Temp)"
    r"(?:[/\\][\w.@+~-]+)*[/\\](?=[\w.@+~-])"
)
_OWN_HOME = re.escape(str(Path.home()))
_HOME = re.compile(
    rf"(?:{_OWN_HOME if len(_OWN_HOME) > 1 else '/home/jovyan'}|/(?:home|Users)/[\w.-]+|[A-Za-z]:\\Users\\[\w.-]+)"
    r"(?=[/\\\s'\":,)]|$)"
)


class Normaliser:
    """Applies the rules, and the user's patterns."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        """`patterns` are as `own_pattern` takes them."""
        self._own = tuple((own_pattern(pattern), pattern) for pattern in patterns)

    def text(self, text: str, folder: str = "") -> str:
        """The text in normalised form; `folder` is the absolute path of the folder that the notebook works in."""
        if len(folder) > 1:
            text = re.sub(rf"(?<![\w.-]){re.escape(folder)}(?![\w.-])", lambda _: ".", text)
        text = _TEMPORARY.sub("<tmp>/", text)
        text = _HOME.sub("~", text)
        for own, name in self._own:
            text = own.sub(name.replace("\\", r"\\"), text)
        for pattern, replacement in _RULES:
            text = re.sub(pattern, replacement, text)
        text = _AGENT_LINE.sub(lambda found: _FLAG.sub("", found[0]), text)
        return "\n".join(line.rstrip() for line in text.strip().split("\n"))


def own_pattern(pattern: str) -> re.Pattern[str]:
    """A user's pattern: text in which `#` stands for a number and `*` for a word. No more can be said in it, so that a
    recording from elsewhere can't hold an expression that takes hours."""
    signs = {"#": r"\d{1,40}+(?:\.\d{1,40}+)?+", "*": r"[\w-]{1,200}+"}
    return re.compile("".join(signs.get(sign, re.escape(sign)) for sign in pattern))
