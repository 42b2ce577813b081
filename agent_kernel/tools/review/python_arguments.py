"""Helpers for the arguments of a call in a syntax tree."""

import ast

from agent_kernel.tools.review.python_names import Names

TARGETS = ("path", "path_or_buf", "fname", "filename", "file", "buf", "excel_writer", "dst", "target", "f", "name")
"""Names of parameters that say where to write."""
_SUBJECTS = ("path", "filename", "file", "src", "url", "args", "cmd", "command", "name")


def argument(node: ast.Call, position: int, *names: str) -> ast.expr | None:
    if position < len(node.args):
        return node.args[position]
    return next((keyword.value for keyword in node.keywords if keyword.arg in names), None)


def has_unknown(node: ast.Call) -> bool:
    return any(isinstance(argument, ast.Starred) for argument in node.args) or any(k.arg is None for k in node.keywords)


def is_constant(node: ast.expr | None, *, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def is_true(node: ast.Call, name: str) -> bool:
    return any(k.arg == name and is_constant(k.value, value=True) for k in node.keywords)


def shown(names: Names, node: ast.Call, position: int) -> str:
    """An argument's code for display, or the call's if it has no such argument."""
    found = argument(node, position, *(TARGETS if position else _SUBJECTS))
    if found is None and not node.args:
        found = next((keyword.value for keyword in node.keywords if keyword.arg is not None), None)
    return names.shown(found) if found is not None else names.code(node)
