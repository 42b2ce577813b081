"""Finds the names that a run's code takes from the notebook, without which it can't be repeated elsewhere."""

import ast
import builtins
import re
from collections.abc import Iterable, Iterator

_GIVEN = frozenset(dir(builtins)) | {"get_ipython", "display", "In", "Out", "_", "__", "___", "__file__", "__name__"}
_MAGIC = re.compile(r"^(\s*)(?:(?:[\w, ]+=\s*)?[%!].*|\?*[\w.]+\?+|\?+[\w.]+)\s*$", re.MULTILINE)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)
_ASSIGNMENTS = (ast.Assign, ast.AugAssign, ast.AnnAssign)


def needed_names(sources: Iterable[str]) -> list[str]:
    """The names that the sources read before any of them has set them, in order of appearance.

    The analysis is static: a name that only a magic or a `*` import sets counts as needed. Sources that are not Python
    are skipped.
    """
    needed: dict[str, None] = {}
    defined: set[str] = set(_GIVEN)
    later: list[str] = []
    for statement in _statements(sources):
        bound, hidden = set(_bound(statement)), set(_hidden(statement))
        before = defined | hidden if isinstance(statement, _ASSIGNMENTS) else defined | hidden | bound
        unknown = [name for name in _read(statement) if name not in before]
        if isinstance(statement, _FUNCTIONS):
            later += unknown  # names that a function reads may be set before it is called
        else:
            needed |= dict.fromkeys(unknown)
        defined |= bound
    return list(needed | dict.fromkeys(name for name in later if name not in defined))


def _statements(sources: Iterable[str]) -> Iterator[ast.stmt]:
    for source in sources:
        for text in (source, _MAGIC.sub(r"\1pass", source)):
            try:
                yield from ast.parse(text).body
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                continue
            break


def _read(statement: ast.stmt) -> list[str]:
    """The names in order of appearance."""
    found: list[tuple[int, int, str]] = []
    for node in ast.walk(statement):
        if isinstance(node, ast.AugAssign):
            node = node.target
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            continue
        if isinstance(node, ast.Name):
            found.append((node.lineno, node.col_offset, node.id))
    return [name for _, _, name in sorted(found)]


def _bound(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement sets for those that follow it."""
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        if isinstance(node, _FUNCTIONS):
            yield node.name
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, _IMPORTS):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name
        if not isinstance(node, ast.Lambda | ast.comprehension):
            pending.extend(ast.iter_child_nodes(node))


def _hidden(statement: ast.stmt) -> Iterator[str]:
    """The local names of functions, lambdas and comprehensions in a statement."""
    for node in ast.walk(statement):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.comprehension):
            yield from (part.id for part in ast.walk(node.target) if isinstance(part, ast.Name))
        elif isinstance(node, _FUNCTIONS):
            for inner in node.body:
                yield from _bound(inner)
