"""Parses a shell line into simple commands, by tree-sitter's Bash grammar. Nothing is run or expanded.

The result serves two purposes. A rule that denies has to see every command that may run, so `whole` is false if
anything can't be followed. A rule that allows accepts only `plain` lines: the tree alone does not decide that, because
no second parser agrees with Bash on everything; each character has to belong to a form with only one reading.
"""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

_LARGEST = 50_000
"""The longest line that is parsed, in bytes."""
_MOST = 2_000
"""The most commands that are read."""
_SECONDS = 0.1
"""The CPU time limit of parsing, because some texts take the parser quadratic time."""
_DEEPEST = 60

_COMMANDS = frozenset({"command", "declaration_command", "unset_command", "test_command"})
_EXPANDS = frozenset(
    (
        *("simple_expansion", "expansion", "arithmetic_expansion", "command_substitution", "process_substitution"),
        *("brace_expression", "extglob_pattern", "ansi_c_string", "translated_string", "string"),
    )
)
"""The last alternative matches only with a `$` before it, where it was not read already."""
_NAME = r"[A-Za-z_]\w*"
_ARITHMETIC = r"\$?(?:\(\(|\[).*[A-Za-z_$`'\"\\].*"
_UNREAD = r".*(?<!\\)(?:\$[({\[]|`).*"
_COMPUTES = {
    **dict.fromkeys(("arithmetic_expansion", "compound_statement", "command_substitution"), _ARITHMETIC),
    "c_style_for_statement": r".*",
    "subscript": rf"{_NAME}\[(?!(?:\d+|[@*])\]$).*",
    "array": r".*[\s(]\[.*",
    "expansion": r"\$\{(?:!.*|.*@P\}|#?[\w@*]+(?:\[[^]]*\])?:(?![-=+?]|[\s\d:-]*\}$).*)",
    **dict.fromkeys(("regex", "extglob_pattern", "word"), _UNREAD),
}
"""Nodes in which Bash evaluates the values of variables, which may hold `a[$(...)]`, or runs commands that the grammar
does not read, with the texts that do so."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_SPLIT_WORD = re.compile(r"\S\\\n\S")
"""A continued word, which the grammar takes for two."""
_SEPARATES = re.compile(r"(?<!\\)[\s;&|<>()]")
_BLANKS = re.compile(r"(?:[ \t]|\\\n)*")
_MAY_EXPAND = re.compile(r"[*?\[{}~$`]|[?*+@!]\(")

_PLAIN_INSIDE = frozenset({"program", "list", "pipeline", "command", "command_name", "redirected_statement"})
_PLAIN_TOKENS = frozenset({";", "&&", "||", "|", "\n"})
_PLAIN_WORD = re.compile(r"(?:[A-Za-z0-9_@%+=:,./^-]|(?<=[A-Za-z0-9])~)+")
_PLAIN_STRING = re.compile(r'"[^"$`\\]*"')
_PLAIN_REDIRECT = re.compile(r"[12]?>&[12]|(?:[12]|&)?>>?[ \t]*/dev/null|<[ \t]*/dev/null")
RESERVED = frozenset(
    (
        *("if", "then", "else", "elif", "fi", "case", "esac", "for", "select", "while", "until", "do", "done", "in"),
        *("function", "time", "coproc", "!", "[[", "]]", "{", "}"),
    )
)


@dataclass(frozen=True, slots=True)
class Word:
    text: str
    """The word without quotes and backslashes."""
    fixed: bool = True
    """False if the shell expands it to another text, several words, or none."""
    splits: bool = False
    """Whether it may become several words, or none."""


@dataclass(frozen=True, slots=True)
class Redirect:
    operator: str
    target: Word


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    words: tuple[Word, ...]
    """The words from the program on, without assignments before it."""
    assigns: tuple[str, ...] = ()

    @property
    def program(self) -> str:
        """The base name of the program."""
        text = self.words[0].text
        return text.rpartition("/")[2] or text

    @property
    def text(self) -> str:
        """The normalised command: the program's base name, single blanks, no quotes."""
        return " ".join([self.program, *(word.text for word in self.words[1:])])


@dataclass(frozen=True, slots=True)
class ShellLine:
    commands: tuple[SimpleCommand, ...] = ()
    """All commands in the order in which they are written, including those within substitutions."""
    redirects: tuple[Redirect, ...] = ()
    assigned: tuple[str, ...] = ()
    """The names of all variables that are set."""
    substitutes: bool = False
    """Whether the output of a command becomes a part of the line."""
    readable: bool = True
    """Whether the whole line could be parsed."""
    whole: bool = True
    """Whether the whole line was understood as well. False for here-documents, which may feed a program, and where the
    values of variables are evaluated."""
    plain: bool = False
    """Whether it consists only of commands with fixed words, in sequence or piped, that redirect to no file."""


def read_line(line: str) -> ShellLine:
    """Parse a line, bounded in size, depth and time. What exceeds a bound counts as not understood."""
    source = line.encode(errors="replace")
    if len(source) > _LARGEST or _CONTROL.search(line):
        return ShellLine(readable=False, whole=False)
    root = _parse(source)
    if root is None:
        return ShellLine(readable=False, whole=False)
    reader = _Reader(source)
    reader.visit(root, 0)
    readable = reader.readable and not root.has_error and not _SPLIT_WORD.search(line)
    whole = readable and not reader.opaque
    return ShellLine(
        commands=tuple(reader.commands),
        redirects=tuple(reader.redirects),
        assigned=tuple(reader.assigned),
        substitutes=reader.substitutes,
        readable=readable,
        whole=whole,
        plain=whole and _is_plain(root, source),
    )


def _parse(source: bytes) -> Node | None:
    """The syntax tree; `None` if the time is up."""
    # A new parser each time, because one must not be shared by threads nor reused after it was stopped.
    parser = Parser(Language(tree_sitter_bash.language()))
    deadline = time.thread_time() + _SECONDS

    def piece(offset: int, _: object) -> bytes:
        return source[offset : offset + 4096]

    def stop(_offset: int, _has_error: bool) -> bool:
        return time.thread_time() > deadline

    try:
        return parser.parse(piece, progress_callback=stop).root_node
    except ValueError:
        return None


class _Reader:
    """Collects the commands of a tree."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        self.commands: list[SimpleCommand] = []
        self.redirects: list[Redirect] = []
        self.assigned: list[str] = []
        self.substitutes = False
        self.opaque = False
        self.readable = True

    def visit(self, node: Node, depth: int) -> None:
        if depth > _DEEPEST or len(self.commands) >= _MOST:
            self.readable = False
            return
        if node.type == "ERROR" or node.is_missing:
            self.readable = False
        if node.type == "comment":
            self._comment(node)
        elif node.type in _COMMANDS:
            self._command(node)
        elif node.type == "file_redirect":
            self._redirect(node)
        elif node.type in ("heredoc_redirect", "herestring_redirect"):
            self.opaque = True
        elif node.type in ("command_substitution", "process_substitution"):
            self.substitutes = True
        self._variables(node)
        for child in node.children:
            self.visit(child, depth + 1)

    def _variables(self, node: Node) -> None:
        """Note what a node does with variables besides using their values as texts."""
        if node.type in _COMPUTES and re.fullmatch(_COMPUTES[node.type], self._raw(node), re.DOTALL):
            self.opaque = True
        if node.type in ("variable_assignment", "for_statement", "expansion"):
            found = re.match(
                rf"({_NAME})(?:\[.*?\])?\+?=|(?:for|select)\s+({_NAME})|\$\{{({_NAME}):?=", self._raw(node)
            )
            self.assigned.extend(name for name in (found.groups() if found else ()) if name)

    def _command(self, node: Node) -> None:
        words: list[Word] = []
        assigns: list[str] = []
        for before, after in pairwise(node.children):
            if not _BLANKS.fullmatch(self._source[before.end_byte : after.start_byte].decode(errors="replace")):
                self.readable = False  # a line end that the grammar has skipped
        if node.type == "test_command":
            words.append(Word(self._raw(node.children[0])))
            words.append(Word(self._raw(node)[len(words[0].text) :].strip(), fixed=False))
        for child in node.children if not words else ():
            if child.type == "variable_assignment" and not words:
                assigns.append(self._raw(child))
            elif child.type == "command_name":
                words.append(self._word(child.children[0]) if child.children else Word(self._raw(child), fixed=False))
            elif child.type not in ("file_redirect", "herestring_redirect", "heredoc_redirect", "comment"):
                words.append(self._word(child))
        if words:
            self.commands.append(SimpleCommand(tuple(words), tuple(assigns)))

    def _redirect(self, node: Node) -> None:
        operator = "".join(child.type for child in node.children if not child.is_named)
        targets = [child for child in node.children if child.is_named and child.type != "file_descriptor"]
        # The grammar takes arguments after a redirection for further targets.
        self.readable = self.readable and len(targets) <= 1
        # `{a[...]}>file` sets a variable.
        self.opaque = self.opaque or self._source[: node.start_byte].endswith(b"}")
        self.redirects.extend(Redirect(operator, self._word(target)) for target in targets)

    def _comment(self, node: Node) -> None:
        """Handle a comment. If Bash may not see it as one, its content may run."""
        before = self._source[: node.start_byte]
        if before and (before[-1:] not in b" \t\n;" or before[-2:-1] == b"\\"):
            self.readable = False

    def _word(self, node: Node) -> Word:
        raw = self._raw(node)
        match node.type:
            case "raw_string":
                return Word(raw[1:-1])
            case "string" if raw.startswith('"'):
                bare = re.sub(r"\\.", "", raw, flags=re.DOTALL)
                text = re.sub(r'\\([$`"\\\n])', _kept, raw[1:-1])
                return Word(text, not re.search("[$`]", bare), splits=re.search(r"\$\{?[@\w[]*@", bare) is not None)
            case "concatenation" if any(child.type != "word" for child in node.children):
                parts = [self._word(child) for child in node.children]
                text = "".join(part.text for part in parts)
                return Word(text, all(part.fixed for part in parts), any(part.splits for part in parts))
            case "command_name" | "test_operator" if len(node.children) == 1:
                return self._word(node.children[0])
            case "variable_assignment":
                return Word(raw, not node.has_error and not _MAY_EXPAND.search(raw))
            case _ if not node.is_named:
                return Word(raw, fixed=raw != "$")
            case _ if node.type in _EXPANDS:
                return Word(raw, fixed=False, splits=raw not in ("$?", "$#", "$$", "$!"))
            case _:
                bare = re.sub(r"\\.", "", raw, flags=re.DOTALL)
                if _SEPARATES.search(bare):
                    self.readable = False
                fixed = not _MAY_EXPAND.search(bare.replace("{}", ""))
                return Word(re.sub(r"\\(.)", _kept, raw, flags=re.DOTALL), fixed, splits=not fixed)

    def _raw(self, node: Node) -> str:
        return self._source[node.start_byte : node.end_byte].decode(errors="replace")


def _kept(escaped: "re.Match[str]") -> str:
    return "" if escaped[1] == "\n" else escaped[1]


def _is_plain(root: Node, source: bytes) -> bool:
    """Whether each character of the line belongs to a form with only one reading."""
    end = 0
    before: Node | None = None
    for leaf in _leaves(root):
        text = source[leaf.start_byte : leaf.end_byte].decode(errors="replace")
        gap = source[end : leaf.start_byte]
        if gap.strip(b" \t\n") or not _is_plain_leaf(leaf, text):
            return False
        if before is not None and not gap and not _may_touch(before, leaf):
            return False
        if leaf.parent is not None and leaf.parent.type == "command_name" and (text in RESERVED or "=" in text):
            return False
        if gap and _in_one_word(before, leaf):
            return False
        before, end = leaf, leaf.end_byte
    return not source[end:].strip(b" \t\n")


def _leaves(node: Node) -> Iterator[Node]:
    inside = _PLAIN_INSIDE | {"concatenation"}
    pending = [node]
    while pending:
        now = pending.pop()
        if now.type in inside and now.children:
            pending.extend(reversed(now.children))
        elif now.start_byte < now.end_byte:
            yield now


def _is_plain_leaf(leaf: Node, text: str) -> bool:
    match leaf.type:
        case "word" | "number":
            return _PLAIN_WORD.fullmatch(text) is not None
        case "raw_string":
            return True
        case "string":
            return _PLAIN_STRING.fullmatch(text) is not None
        case "file_redirect":
            return _PLAIN_REDIRECT.fullmatch(text) is not None
        case _:
            return leaf.type in _PLAIN_TOKENS and text.strip(" \t\n") in _PLAIN_TOKENS | {""}


def _may_touch(before: Node, leaf: Node) -> bool:
    """Whether words and redirections are separated, unless they are parts of one word."""
    joined = before.type not in _PLAIN_TOKENS and leaf.type not in _PLAIN_TOKENS
    return not joined or _in_one_word(before, leaf)


def _in_one_word(before: Node | None, leaf: Node) -> bool:
    parent = leaf.parent
    return before is not None and parent is not None and parent.type == "concatenation" and before.parent == parent
