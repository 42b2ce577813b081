"""Finds the effects of Python code by reading its syntax tree. The code may do more.

`python_magics` translates IPython's syntax, `python_names` resolves names, `python_calls` finds the effects of calls.
This module handles statements, texts and nested code.
"""

import ast
import re
import warnings
from collections.abc import Iterator
from functools import partial

from agent_kernel.tools.review import effects, secrets, usual_names
from agent_kernel.tools.review.effects import words
from agent_kernel.tools.review.findings import Finding
from agent_kernel.tools.review.python_calls import Calls, dropped, environment_read
from agent_kernel.tools.review.python_magics import Nested, is_magic_without_a_mark, plain_python
from agent_kernel.tools.review.python_names import Names, same
from agent_kernel.tools.review.shell import read_command

_LARGEST = 100_000
"""The longest code that is parsed, in characters. Parsing that much holds the GIL for up to 0.15 s."""
_DEEPEST = 4
"""The most levels of nested code."""
_WITHIN = 100_000
"""The most characters of nested code and commands that are read in total."""
_CALLED = re.compile(r"(?<![\w.])([A-Za-z_]\w*+(?:\.[A-Za-z_]\w*+)*+)[ \t]*+\(")
_REACHES_DEEP = words("""
    __subclasses__ __globals__ __builtins__ __code__ __loader__ __getattribute__ f_builtins f_globals
    """)
"""Attributes through which anything can be reached, so that they can't be followed."""


def read_python(code: str) -> list[Finding]:
    """The effects in order of appearance. Code that can't be read is reported last, as not checked."""
    return _Reading().code(code)


class _Reading:
    """Reads a program and the code nested in it. Each text is read and reported once."""

    def __init__(self) -> None:
        self._left = _WITHIN
        self._read: set[tuple[str, str]] = set()

    def code(self, code: str, depth: int = 0) -> list[Finding]:
        if len(code) > _LARGEST:
            return [("Not checked:", "the code is too long to read")]
        within = partial(self._within, depth=depth + 1)
        plain = plain_python(code) if is_magic_without_a_mark(code) else None
        try:
            try:
                return _found(plain.code if plain is not None else code, within, self._command)
            except SyntaxError:
                plain = plain_python(code)
                return _found(plain.code, within, self._command)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            magics = plain.magics if plain is not None else []
            found = [finding for magic in magics for finding in self._magic(magic, within)]
            return [*found, *_called(code), ("Not checked:", "the code can't be read as Python")]

    def _magic(self, call: str, within: Nested) -> list[Finding]:
        try:
            return _found(call, within, self._command)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return []

    def _within(self, code: str, depth: int) -> list[Finding]:
        if ("code", code) in self._read:
            return []
        self._read.add(("code", code))
        self._left -= len(code)
        if depth > _DEEPEST or self._left < 0:
            return [("Not checked:", "code within code")]
        return self.code(code, depth)

    def _command(self, command: str) -> list[Finding]:
        if ("command", command) in self._read:
            return []
        self._read.add(("command", command))
        self._left -= len(command)
        return read_command(command) if self._left >= 0 else [("Not checked:", "too many commands")]


def _found(code: str, within: Nested, command: Nested) -> list[Finding]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(code)
    names = Names(code, tree)
    return list(_Program(names, Calls(names, within, command)).read())


def _called(code: str) -> Iterator[Finding]:
    """Find functions by their names alone, in code that can't be parsed."""
    for match in _CALLED.finditer(code):
        name = match[1] if len(match[1]) < 200 else ""
        root, dot, rest = name.partition(".")
        full = same(f"{usual_names.CONVENTIONS.get(root, root)}{dot}{rest}")
        yield from ((does.effect, name) for does in effects.FUNCTIONS.get(full, ()))
        if dot and name.rpartition(".")[2] in ("unlink", "rmdir"):
            yield "Deletes files:", name


class _Program:
    def __init__(self, names: Names, calls: Calls) -> None:
        self._names = names
        self._calls = calls
        self._parts: set[int] = set()
        """Expressions that are handled with the expression that contains them."""

    def read(self) -> Iterator[Finding]:
        for node in self._names.order:
            match node:
                case ast.Call():
                    self._parts.add(id(node.func))
                case ast.Attribute() | ast.Subscript():
                    self._parts.add(id(node.value))
                case ast.Compare():
                    self._parts.update(map(id, node.comparators))
                case ast.Expr(value=ast.Constant()):
                    self._parts.add(id(node.value))
                case _:
                    pass
        for node in self._names.order:
            yield from self._node(node)
        yield from (("Not checked:", f"what {name} is") for name in self._names.unclear)

    def _node(self, node: ast.AST) -> Iterator[Finding]:
        match node:
            case ast.Call():
                yield from self._calls.read(node)
            case ast.Name(ctx=ast.Load()) if id(node) not in self._parts:
                yield from self._mentioned(node)
            case ast.Attribute():
                yield from self._attribute(node)
            case ast.Subscript():
                yield from self._subscript(node)
            case ast.Constant(value=str(text)) if id(node) not in self._parts:
                yield from secrets.in_text(text)
            case ast.Delete():
                yield from (finding for target in node.targets for finding in self._deleted(target))
            case ast.Assign() | ast.AnnAssign():
                yield from self._assigned(node)
            case ast.keyword() | ast.Dict() | ast.arguments() | ast.Compare():
                yield from self._named_texts(node)
            case _:
                return

    def _mentioned(self, node: ast.Name | ast.Attribute) -> Iterator[Finding]:
        yield from self._calls.mentioned(node)
        if "os.environ" in self._names.meanings(node):
            yield "Reads secrets:", self._names.code(node)

    def _attribute(self, node: ast.Attribute) -> Iterator[Finding]:
        if node.attr in _REACHES_DEEP:
            yield "Runs code it builds:", self._names.code(node)
        if isinstance(node.ctx, ast.Load):
            if id(node) not in self._parts:
                yield from self._mentioned(node)
        elif set(self._names.meanings(node.value)) & usual_names.CORE_MODULES:
            yield "Changes the kernel:", self._names.code(node)

    def _subscript(self, node: ast.Subscript) -> Iterator[Finding]:
        for meaning in self._names.meanings(node.value):
            keys = self._names.texts(node.slice)
            is_namespace = meaning in ("globals()", "sys.modules") or meaning.endswith(".__dict__")
            if isinstance(node.ctx, ast.Load):
                if meaning == "os.environ":
                    yield from environment_read(keys, self._names.code(node))
                elif is_namespace or meaning == "builtins":
                    is_plain = meaning == "globals()" and not keys
                    if not is_plain and not (keys and all(key.whole for key in keys)):
                        yield "Runs code it builds:", self._names.code(node)
                    elif id(node) not in self._parts:
                        yield from self._item_mentioned(node)
            elif meaning == "os.environ" or (is_namespace and isinstance(node.ctx, ast.Store)):
                yield "Changes the kernel:", self._names.code(node)

    def _item_mentioned(self, node: ast.Subscript) -> Iterator[Finding]:
        for meaning in self._names.meanings(node):
            yield from ((does.effect, self._names.code(node)) for does in effects.FUNCTIONS.get(meaning, ()))

    def _deleted(self, target: ast.expr) -> Iterator[Finding]:
        if isinstance(target, ast.Tuple | ast.List):
            for part in target.elts:
                yield from self._deleted(part)
        elif isinstance(target, ast.Name):
            if not self._names.is_made_here(target):
                yield "Deletes variables:", target.id
        elif isinstance(target, ast.Subscript):
            meanings = self._names.meanings(target.value)
            if "os.environ" in meanings:
                return
            is_column = bool(self._names.texts(target.slice)) and "globals()" not in meanings
            if not (isinstance(target.value, ast.Name) and self._names.is_own(target.value)):
                yield "Deletes columns:" if is_column else "Deletes variables:", self._names.code(target)

    def _assigned(self, node: ast.Assign | ast.AnnAssign) -> Iterator[Finding]:
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Name) and node.value is not None:
                yield from self._reassigned(target.id, node.value)
            yield from self._secret(_name_of(target), node.value)

    def _reassigned(self, name: str, value: ast.expr) -> Iterator[Finding]:
        """Treat `df = df.dropna()` as an in-place call, because the user loses the rows."""
        match value:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=table), attr=method)) if table == name:
                yield from dropped(value, method, name, self._names)
            case _:
                return

    def _named_texts(self, node: ast.keyword | ast.Dict | ast.arguments | ast.Compare) -> Iterator[Finding]:
        match node:
            case ast.keyword(arg=str(name)):
                yield from self._secret(name, node.value)
                yield from self._calls.keyword(node)
            case ast.Dict():
                for key, value in zip(node.keys, node.values, strict=True):
                    if isinstance(key, ast.Constant) and isinstance(key.value, str):
                        yield from self._secret(key.value, value)
                        if key.value in ("text/html", "application/javascript", "image/svg+xml"):
                            yield "Shows HTML or script:", self._names.code(value)
            case ast.arguments():
                plain = [*node.posonlyargs, *node.args]
                for argument, default in zip(plain[len(plain) - len(node.defaults) :], node.defaults, strict=True):
                    yield from self._secret(argument.arg, default)
            case ast.Compare():
                yield from self._secret(_name_of(node.left), node.comparators[0])
            case _:
                return

    def _secret(self, name: str, value: ast.expr | None) -> Iterator[Finding]:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield from secrets.set_to(name, value.value)


def _name_of(node: ast.expr) -> str:
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute():
            return node.attr
        case ast.Subscript(slice=ast.Constant(value=str() as key)):
            return key
        case _:
            return ""
