"""Finds the files that a call writes or moves, except temporary files and memory."""

import ast
import re
from collections.abc import Iterator

from agent_kernel.tools.review import effects
from agent_kernel.tools.review.effects import words
from agent_kernel.tools.review.findings import Effect, Finding
from agent_kernel.tools.review.python_arguments import TARGETS, argument, has_unknown, shown
from agent_kernel.tools.review.python_names import Names, Text

_MODE = re.compile(r"[rwaxbtU+-]{1,4}(?:[:|]\w*)?")
_READ_FLAGS = words("O_RDONLY O_CLOEXEC O_NOFOLLOW O_DIRECTORY O_NONBLOCK O_BINARY O_PATH O_NOCTTY")
_IN_MEMORY = ("io.StringIO()", "io.BytesIO()", "sys.stdout", "sys.stderr", "pandas.ExcelWriter()")
"""Objects that are no files, or files that were reported when they were opened."""
_PATHLIKE = re.compile(r"(?i)(?:path|file|folder|dir|dest|target)s?\d?$|^(?:p|f|fp|src|dst)$")


class Files:
    def __init__(self, names: Names) -> None:
        self._names = names

    def opened(self, node: ast.Call, name: str) -> Iterator[Finding]:
        position, mode = effects.OPENERS.get(name, (1, "w"))
        target = shown(self._names, node, 0)
        if has_unknown(node):
            yield "Writes files:", self._names.code(node)
            return
        given = argument(node, position, "mode", "flags")
        if name == "os.open":
            named = {part.attr for part in ast.walk(given) if isinstance(part, ast.Attribute)} if given else {"?"}
            writes = not named or not named <= _READ_FLAGS
        else:
            texts = self._names.texts(given) if given is not None else (Text(mode, whole=True),)
            writes = not texts or any(_writes(text, name) for text in texts)
        if writes and not self.is_temporary(argument(node, 0, *TARGETS)):
            yield "Writes files:", target

    def effect(self, method: str, node: ast.Call) -> Effect | None:
        if method not in effects.PATH_MOVERS:
            return effects.PATH_EFFECTS.get(method)
        return "Writes files:" if len(node.args) == 1 and not node.keywords and self._is_path(node.func) else None

    def _is_path(self, function: ast.expr) -> bool:
        assert isinstance(function, ast.Attribute)
        receiver = function.value
        if any(meaning.startswith("pathlib.Path()") for meaning in self._names.meanings(receiver)):
            return True
        name = receiver.attr if isinstance(receiver, ast.Attribute) else getattr(receiver, "id", "")
        return _PATHLIKE.search(name) is not None

    def opened_by_method(self, node: ast.Call, receiver: ast.expr) -> Iterator[Finding]:
        """Handle `path.open(mode)` and `files.open(path, mode)`, but not `image.open(path)`."""
        if has_unknown(node):
            yield "Writes files:", self._names.code(node)
            return
        for position, given in enumerate([*node.args[:2], *(k.value for k in node.keywords if k.arg == "mode")]):
            texts = self._names.texts(given)
            is_mode = bool(texts) and all(_MODE.fullmatch(text.text) for text in texts)
            unknown = not texts and (position > 0 or self._is_path(node.func))
            if (is_mode and any(_writes(text, "") for text in texts)) or unknown:
                if not self.is_temporary(receiver):
                    is_path = position == 0 or not node.args or len(node.args) == 1
                    yield "Writes files:", self._names.shown(receiver if is_path else node.args[0])
                return

    def is_temporary(self, node: ast.expr | None) -> bool:
        """Whether a path is in something that `tempfile` has just made, or is no file."""
        for _ in range(5):
            meanings = self._names.meanings(node)
            if meanings and all(m.startswith("tempfile.") or m in _IN_MEMORY for m in meanings):
                return self._is_sure(node)
            node = self._start_of_path(node)
            if node is None:
                return False
        return False

    def _is_sure(self, node: ast.expr | None) -> bool:
        """Whether the names in an expression have one meaning each."""
        parts = list(ast.walk(node))[:20] if node is not None else []
        return all(self._names.is_bound_once(part.id) for part in parts if isinstance(part, ast.Name))

    def _start_of_path(self, node: ast.expr | None) -> ast.expr | None:
        """The first part of a composed path, if the rest stays below it."""
        rest: list[ast.expr] = []
        start: ast.expr | None = None
        match node:
            case ast.Call(args=[first, *rest]) if self._names.meanings(node.func) in (
                ("os.path.join",),
                ("pathlib.Path",),
            ):
                start = first
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                start, rest = left, [right]
            case ast.Attribute(value=value):
                start = value
            case ast.JoinedStr(values=[ast.FormattedValue(value=value), *others]):
                start, rest = value, others
            case _:
                return None
        texts = [self._names.texts(part) for part in rest]
        skipped = 1 if isinstance(node, ast.JoinedStr) else 0  # its `/`
        below = all(len(known) == 1 and known[0].whole and _stays_below(known[0].text[skipped:]) for known in texts)
        return start if below else None


def _writes(mode: Text, function: str) -> bool:
    if not mode.whole:
        return True
    # tarfile's `r:xz` reads.
    return bool(
        set(mode.text.partition(":")[0].partition("|")[0] if function.startswith("tarfile") else mode.text)
        & set("wax+")
    )


def _stays_below(part: str) -> bool:
    return not part.startswith(("/", "~", "\\")) and ".." not in part and ":" not in part
