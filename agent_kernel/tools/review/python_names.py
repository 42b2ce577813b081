"""What the names and texts in a program are, by a plain reading of its syntax tree.

A name is what the program imports by it or, where that is done once, sets it to; a name that it does not set is the
module or function that is usually called so. Values are followed no further.
"""

import ast
from collections import Counter

from agent_kernel.tools.review.effects import CONVENTIONS, CORE_MODULES, SAME, words

_LONGEST_NAME = 120
_LONGEST_SHOWN = 1_000
_TEXT_WRAPPERS = words("text SQL dedent str Path PurePath")


class Names:
    def __init__(self, code: str, tree: ast.Module) -> None:
        self._lines = [line.encode() for line in code.split("\n")]
        self._imported: dict[str, str] = {}
        self._values: dict[str, ast.AST] = {}
        self._bound: Counter[str] = Counter()
        nodes = list(ast.walk(tree))
        for node in nodes:
            self._bind(node)
        self.order = [node for node in nodes[::-1] if isinstance(node, ast.expr | ast.stmt | ast.keyword)]
        """Parts before what they are part of, which ends no earlier and is walked earlier."""
        self.order.sort(key=lambda node: (node.end_lineno or 0, node.end_col_offset or 0))
        self._names: dict[ast.AST, str] = {}
        self._texts: dict[ast.AST, str | None] = {}
        for node in self.order:
            self._names[node] = self._name(node)[:_LONGEST_NAME]
            self._texts[node] = self._text(node)

    def name(self, node: ast.AST | None) -> str:
        """The full name of an expression, such as `os.remove` or `get_ipython().system`; empty if it has none."""
        return self._names.get(node, "") if node is not None else ""

    def text(self, node: ast.AST | None) -> str | None:
        """The text that an expression is or begins with; `None` if the code does not say it."""
        return self._texts.get(node) if node is not None else None

    def is_bound(self, node: ast.AST) -> bool:
        """Whether a variable is set by the program itself, somewhere."""
        return isinstance(node, ast.Name) and node.id in self._bound

    def code(self, node: ast.expr | ast.keyword) -> str:
        """The code of an expression, unless it is too long to be shown."""
        lines = self._lines[node.lineno - 1 : node.end_lineno]
        cut = [len(lines[-1]) - (node.end_col_offset or 0), node.col_offset]
        if len(lines) > 10 or sum(map(len, lines)) - sum(cut) > _LONGEST_SHOWN:
            return "(a long expression)"
        lines[-1] = lines[-1][: node.end_col_offset]
        lines[0] = lines[0][node.col_offset :]
        return b" ".join(line.strip() for line in lines).decode(errors="replace")

    def shown(self, node: ast.expr) -> str:
        """A path or command for display: its text if that is known, else the code that makes it."""
        text = None if isinstance(node, ast.JoinedStr | ast.BinOp) else self.text(node)
        return self.code(node) if text is None else text[:_LONGEST_SHOWN]

    def _bind(self, node: ast.AST) -> None:
        match node:
            case ast.Import():
                for alias in node.names:
                    module = alias.name if alias.asname else alias.name.partition(".")[0]
                    self._imported[alias.asname or module] = _same(module)
            case ast.ImportFrom():
                for alias in node.names:
                    self._imported[alias.asname or alias.name] = _same(f"{node.module}.{alias.name}")
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.withitem(optional_vars=ast.Name(id=name), context_expr=value)
            ):
                self._values[name] = value
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.FunctionDef(name=name):
                self._bound[name] += 1
            case _:
                return

    def _value(self, name: str) -> ast.AST | None:
        return self._values.get(name) if self._bound[name] == 1 else None

    def _name(self, node: ast.AST) -> str:
        match node:
            case ast.Name(id=name) if name in self._imported:
                return self._imported[name]
            case ast.Name(id=name) if name in self._bound and name not in CORE_MODULES:
                return self.name(self._value(name))
            case ast.Name(id=name):
                return _same(CONVENTIONS.get(name, name))
            case ast.Attribute(value=value, attr=attribute) if self.name(value):
                return _same(f"{self.name(value)}.{attribute}")
            case ast.Call(func=function) if self.name(function):
                return _same(f"{self.name(function)}()")
            case _:
                return ""

    def _text(self, node: ast.AST) -> str | None:
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.Name(id=name):
                return self.text(self._value(name))
            case ast.JoinedStr(values=parts):
                values = [
                    f"{{{self.code(part.value)}}}" if isinstance(part, ast.FormattedValue) else self.text(part)
                    for part in parts
                ]
                return "".join(value or "" for value in values)
            case (
                ast.BinOp(left=part, op=ast.Add() | ast.Mod()) | ast.Call(func=ast.Attribute(attr="format", value=part))
            ):
                return self.text(part)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[part]) if name in _TEXT_WRAPPERS:
                return self.text(part)
            case _:
                return "python" if self.name(node) == "sys.executable" else None


def _same(name: str) -> str:
    """The name that the tables use for an alias."""
    root, dot, rest = name.partition(".")
    name = f"{SAME.get(root, root)}{dot}{rest}".removeprefix("builtins.")
    return SAME.get(name, name)
