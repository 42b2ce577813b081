"""Finds the effects of Python code by a plain reading of its syntax tree: help for a person, and no guard.

A name is what the program imports by it or, where that is done once, sets it to; a name that it does not set is the
module or function that is usually called so. Values are followed no further. `python_magics` translates IPython's
syntax, `texts` says what texts are, `effects` has the tables.
"""

import ast
import re
import shlex
import warnings
from collections import Counter
from collections.abc import Collection, Iterator

from agent_kernel.tools.review import effects, texts
from agent_kernel.tools.review.effects import words
from agent_kernel.tools.review.findings import Effect, Finding
from agent_kernel.tools.review.python_magics import magic, plain_python
from agent_kernel.tools.review.shell_effects import read_command

_LARGEST = 100_000
"""The longest code that is parsed, in characters. Parsing that much holds the GIL for up to 0.15 s."""
_MOST_PARTS = 12
"""Of a name with dots."""
_SHOWN = 1_000
"""The most characters of a text that are processed if no more would be shown."""
_REACHES_DEEP = words("__subclasses__ __globals__ __builtins__ __code__ __loader__ __getattribute__ __dict__")
"""Attributes through which anything can be reached, so that they can't be followed."""
_PLACES = words("os.environ sys.modules globals()")
"""What holds more than the program's own data."""
_TEXT_WRAPPERS = words("text SQL dedent str Path PurePath")
_SCRIPTS = words("text/html application/javascript image/svg+xml")
_TARGETS = words("path path_or_buf fname filename file buf excel_writer dst target f name")
"""Names of parameters that say where to write."""
_SUBJECTS = words("path filename file src url args cmd command name statement sql query expr")
_SAFE: dict[Effect, re.Pattern[str]] = {
    "Loads data that may run code:": re.compile(r"\bC?(?:Safe|Base)Loader\b|weights_only=True"),
    "Shows HTML or script:": re.compile(r"\.to_html\((?!.*escape)"),
    "Writes files:": re.compile(r"O_RDONLY"),
}
"""Code of a call that keeps it from having the effect."""
_RISKY_ARGUMENTS: dict[str, Effect] = {
    "trust_remote_code": "Runs code it builds:",
    "allow_pickle": "Loads data that may run code:",
}
"""Arguments that have an effect, whatever function is called."""
_MODE = re.compile(r"[rwaxbtU+-]{1,4}(?:[:|]\w*)?")
_PATH = re.compile(r"(?i)(?:path|file|folder)\d?$|^(?:p|f|src)$|^Path\(")
_COLUMNS = re.compile(r"\bcolumns\b|\baxis=1\b|, 1\b")
_DROPS = words("drop dropna drop_duplicates")
_IN_MEMORY = re.compile(r"(?:io\.)?(?:StringIO|BytesIO)\(|sys\.std|buf|writer", re.IGNORECASE)
"""Code of what is no file, or was reported when it was opened."""


def read_python(code: str) -> list[Finding]:
    """The effects in order of appearance. Code that can't be read is reported as not checked."""
    if len(code) > _LARGEST:
        return [("Not checked:", "the code is too long to read")]
    try:
        try:
            return _found(code)
        except SyntaxError:
            return _found(plain_python(code))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [("Not checked:", "the code can't be read as Python")]


def _found(code: str) -> list[Finding]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(code)
    reader = _Reader(code, tree)
    reader.visit(tree)
    return reader.found


class _Reader(ast.NodeVisitor):
    def __init__(self, code: str, tree: ast.Module) -> None:
        self.found: list[Finding] = []
        self._lines = [line.encode() for line in code.split("\n")]
        self._imported: dict[str, str] = {}
        self._values: dict[str, ast.AST] = {}
        self._bound: Counter[str] = Counter()
        for node in ast.walk(tree):
            self._bind(node)

    def visit_Call(self, node: ast.Call) -> None:
        self.found += self._call(node)
        if isinstance(node.func, ast.Attribute):
            self._reach_deep(node.func)
            self._parts_of(node.func.value)
        elif not isinstance(node.func, ast.Name):
            self.visit(node.func)
        for part in (*node.args, *node.keywords):
            self.visit(part)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._mentioned(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._reach_deep(node)
        if isinstance(node.ctx, ast.Load):
            self._mentioned(node)
        elif self._name(node.value) in effects.CORE_MODULES:
            self._add("Changes the kernel:", self._code(node))
        self._parts_of(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        name = self._name(node.value)
        if isinstance(node.ctx, ast.Store) and name in _PLACES:
            self._add("Changes the kernel:", self._code(node))
        elif isinstance(node.ctx, ast.Load) and name == "os.environ":
            self.found.append(self._environment(node.slice, node))
        self._parts_of(node.value)
        self.visit(node.slice)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.found += texts.secrets_in(node.value)

    def visit_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            self._deleted(target)

    def visit_Assign(self, node: ast.Assign) -> None:
        match node:
            case ast.Assign(targets=[target], value=ast.Constant(value=str(text))):
                # `password`, `self.password` or `settings["password"]`
                self.found += texts.secret_set(re.split(r"\W+", self._code(target).rstrip("\"']"))[-1], text)
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Call(func=ast.Attribute(value=ast.Name(id=table))) as call
            ) if name == table:  # as in place, because the user loses the rows
                self.found += self._dropped(call)
            case _:
                pass
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        self.found += texts.secret_set(node.arg or "", self._text(node.value) or "")
        self.visit(node.value)

    def visit_Dict(self, node: ast.Dict) -> None:
        for key, value in zip(node.keys, node.values, strict=True):
            said = self._text(key) or ""
            self.found += texts.secret_set(said, self._text(value) or "")
            if said in _SCRIPTS:
                self._add("Shows HTML or script:", self._code(value))
        self.generic_visit(node)

    def _add(self, effect: Effect, detail: str) -> None:
        self.found.append((effect, detail))

    def _parts_of(self, value: ast.expr) -> None:
        """Visit what an attribute or an item is of, unless it is a mere name, which is handled with it."""
        while isinstance(value, ast.Attribute):
            self._reach_deep(value)
            value = value.value
        if not isinstance(value, ast.Name):
            self.visit(value)

    def _reach_deep(self, node: ast.Attribute) -> None:
        if node.attr in _REACHES_DEEP:
            self._add("Runs code it builds:", self._code(node))

    def _mentioned(self, node: ast.Name | ast.Attribute) -> None:
        """The effects of a function that is named but not called, because it may be called later."""
        for does in effects.FUNCTIONS.get(self._name(node), ()):
            self._add(does.effect, self._code(node))
        if isinstance(node, ast.Attribute) and node.attr in effects.MENTIONED:
            self._add(effects.MENTIONED[node.attr], self._code(node))

    def _deleted(self, target: ast.expr) -> None:
        """What is deleted of earlier cells' data: what this code has made is its own."""
        code = self._code(target)
        match target:
            case ast.Subscript(value=value) if (name := self._name(value)) in _PLACES:
                self._add("Deletes variables:" if name == "globals()" else "Changes the kernel:", code)
            case ast.Subscript(value=ast.Name(id=table)) if table not in self._bound:
                self._add("Deletes variables:" if self._text(target.slice) is None else "Deletes columns:", code)
            case ast.Name(id=name) if name not in self._bound:
                self._add("Deletes variables:", code)
            case _:
                pass

    def _call(self, node: ast.Call) -> Iterator[Finding]:
        name = self._name(node.func)
        found = [*self._opened(name, node), *self._function(name, node)]
        if not found and isinstance(node.func, ast.Attribute):
            found = list(self._method(node, node.func.value, node.func.attr))
        yield from found
        for keyword in node.keywords:
            if keyword.arg in _RISKY_ARGUMENTS and not _is(keyword.value, value=False):
                yield _RISKY_ARGUMENTS[keyword.arg], self._code(node)
        if getattr(node.func, "attr", getattr(node.func, "id", "")) not in effects.TAKES_ADDRESSES_AS_TEXT:
            for given in (*node.args, *(keyword.value for keyword in node.keywords)):
                start = (self._text(given) or "")[:_SHOWN]
                if start.lower().startswith(effects.REMOTE):
                    yield "Uses the network:", start

    def _opened(self, name: str, node: ast.Call) -> Iterator[Finding]:
        if name in effects.OPENERS and not self._is_safe("Writes files:", node):
            position, default = effects.OPENERS[name]
            mode = _argument(node, position, ("mode", "flags"))
            # A mode that the code does not say may write.
            if _writes(default if mode is None else self._text(mode) or "w"):
                yield "Writes files:", self._shown(node, 0)

    def _function(self, name: str, node: ast.Call) -> Iterator[Finding]:
        if name in effects.FUNCTIONS:
            for does in effects.FUNCTIONS[name]:
                if not self._is_safe(does.effect, node):
                    yield does.effect, self._shown(node, does.position)
                if does.effect == "Runs shell commands:":
                    yield from self._commands(_argument(node, does.position, _SUBJECTS))
        elif (effect := _by_module(name)) is not None:
            yield effect, self._shown(node, 0)
        elif name == "os.getenv":
            yield self._environment(_argument(node, 0), node)
        elif name in ("getattr", "setattr") and self._name(_argument(node, 0)) in effects.CORE_MODULES:
            yield "Runs code it builds:" if name == "getattr" else "Changes the kernel:", self._code(node)
        elif name in ("get_ipython().run_line_magic", "get_ipython().run_cell_magic"):
            yield from self._magic(node, name.endswith("cell_magic"))

    def _magic(self, node: ast.Call, is_cell: bool) -> Iterator[Finding]:
        name, line, body = ([*map(self._text, node.args), None, None, None])[:3]
        if name is None:
            yield "Runs code it builds:", self._code(node)
        else:
            yield from magic(name, line or "", body or "" if is_cell else None)

    def _commands(self, node: ast.expr | None) -> Iterator[Finding]:
        if isinstance(node, ast.List | ast.Tuple):
            yield from read_command(shlex.join(map(self._text_or_code, node.elts)))
        elif (text := self._text(node)) is not None:
            yield from read_command(text)

    def _environment(self, key: ast.expr | None, node: ast.expr) -> Finding:
        """The effect of reading one environment variable, or all."""
        text = self._text(key)
        return ("Reads secrets:", self._code(node)) if text is None else texts.variable_read(text)

    def _method(self, node: ast.Call, receiver: ast.expr, method: str) -> Iterator[Finding]:
        if method in effects.WRITERS:
            target = _argument(node, 0, _TARGETS)
            if target is not None and not _is(target, value=None) and not _IN_MEMORY.match(self._code(target)):
                yield "Writes files:", self._text_or_code(target)
        elif method in effects.PATH_EFFECTS:
            yield effects.PATH_EFFECTS[method], self._text_or_code(receiver)
        elif method == "open":  # `path.open(mode)` and `files.open(path, mode)`, but not `image.open(path)`
            modes = [self._text(given) or "" for given in (*node.args[:2], *(k.value for k in node.keywords))]
            if any(_MODE.fullmatch(mode) and _writes(mode) for mode in modes):
                yield "Writes files:", self._text_or_code(receiver if len(node.args) < 2 else node.args[0])
        elif method in effects.METHODS and getattr(receiver, "attr", "") != "str":
            yield effects.METHODS[method], self._shown(node, 0)
        elif method in texts.QUERIES:
            yield from self._queried(node, method)
        else:
            yield from self._changed(node, method, self._code(receiver))

    def _changed(self, node: ast.Call, method: str, receiver: str) -> Iterator[Finding]:
        if any(keyword.arg == "inplace" and _is(keyword.value, value=True) for keyword in node.keywords):
            yield from self._dropped(node)
        elif method in ("rename", "replace") and len(node.args) == 1 and _PATH.search(receiver):
            yield "Writes files:", self._shown(node, 0)
        elif texts.changes_by_name(self._code(node.func)):
            yield "Changes a database:", self._code(node)
        elif effects.REMOTE_DELETE.fullmatch(method) or (method == "delete" and effects.REMOTE_THING.search(receiver)):
            yield "Deletes remote data:", self._code(node)

    def _queried(self, node: ast.Call, method: str) -> Iterator[Finding]:
        given = _argument(node, 0, _SUBJECTS)
        text = self._text(given)
        if text is not None:
            yield from texts.database_changes(text)
        elif given is None or self._code(given)[:1].isupper():
            return  # `model.eval()`, and `session.query(Order)`: a class, not a statement
        elif method in texts.EXECUTES:
            yield "Not checked:", self._code(node)
        elif method in ("query", "eval"):
            yield "Runs code it builds:", self._text_or_code(given)

    def _dropped(self, node: ast.Call) -> Iterator[Finding]:
        """The effect of a method that drops rows or columns of a table."""
        if isinstance(node.func, ast.Attribute) and node.func.attr in _DROPS:
            if node.func.attr == "drop" and _COLUMNS.search(self._code(node)):
                yield "Deletes columns:", self._code(node)
            else:
                yield "Deletes rows:", self._code(node.func.value)

    def _is_safe(self, effect: Effect, node: ast.Call) -> bool:
        return effect in _SAFE and _SAFE[effect].search(self._code(node)) is not None

    def _shown(self, node: ast.Call, position: int) -> str:
        """An argument's text or code for display, or the call's code if it has no such argument."""
        found = _argument(node, position, _TARGETS if position else _SUBJECTS)
        return self._code(node) if found is None else self._text_or_code(found)

    def _text_or_code(self, node: ast.expr) -> str:
        """A path or command for display: its text if the code has it as a whole, else the code that makes it."""
        text = None if isinstance(node, ast.JoinedStr | ast.BinOp) else self._text(node)
        return self._code(node) if text is None else text[:_SHOWN]

    def _code(self, node: ast.expr | ast.keyword) -> str:
        """The code of an expression, unless it is too long to be shown."""
        lines = self._lines[node.lineno - 1 : node.end_lineno]
        cut = [len(lines[-1]) - (node.end_col_offset or 0), node.col_offset]
        if len(lines) > 10 or sum(map(len, lines)) - sum(cut) > _SHOWN:
            return "(a long expression)"
        lines[-1] = lines[-1][: node.end_col_offset]
        lines[0] = lines[0][node.col_offset :]
        return b" ".join(line.strip() for line in lines).decode(errors="replace")

    def _bind(self, node: ast.AST) -> None:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    module = alias.name if alias.asname else alias.name.partition(".")[0]
                    self._imported[alias.asname or module] = _same(module)
            case ast.ImportFrom(module=module, names=names):
                for alias in names:
                    self._imported[alias.asname or alias.name] = _same(f"{module}.{alias.name}")
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.withitem(optional_vars=ast.Name(id=name), context_expr=value)
            ):
                self._values[name] = value
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.FunctionDef(name=name):
                self._bound[name] += 1
            case _:
                pass

    def _value(self, name: str) -> ast.AST | None:
        return self._values.get(name) if self._bound[name] == 1 else None

    def _name(self, node: ast.AST | None, parts: int = _MOST_PARTS) -> str:
        """The full name of an expression, such as `os.remove` or `get_ipython().system`; empty if it has none."""
        match node:
            case ast.Name(id=name) if name in self._imported:
                return self._imported[name]
            case ast.Name(id=name) if name not in self._bound or name in effects.CORE_MODULES:
                return _same(effects.CONVENTIONS.get(name, name))
            case ast.Name(id=name) if parts:
                return self._name(self._value(name), parts - 1)
            case ast.Attribute(value=value, attr=attribute) if parts and (name := self._name(value, parts - 1)):
                return _same(f"{name}.{attribute}")
            case ast.Call(func=function) if parts and (name := self._name(function, parts - 1)):
                return _same(f"{name}()")
            case _:
                return ""

    def _text(self, node: ast.AST | None, parts: int = _MOST_PARTS) -> str | None:
        """The text that an expression is or begins with; `None` if the code does not say it."""
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.Name(id=name) if parts:
                return self._text(self._value(name), parts - 1)
            case ast.JoinedStr(values=values):
                return "".join(map(self._piece, values))
            case (
                ast.BinOp(left=part, op=ast.Add() | ast.Mod()) | ast.Call(func=ast.Attribute(attr="format", value=part))
            ) if parts:
                return self._text(part, parts - 1)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[part]) if (
                parts and name in _TEXT_WRAPPERS
            ):
                return self._text(part, parts - 1)
            case _:
                return "python" if self._name(node) == "sys.executable" else None

    def _piece(self, node: ast.expr) -> str:
        """A part of an f-string."""
        return f"{{{self._code(node.value)}}}" if isinstance(node, ast.FormattedValue) else self._text(node) or ""


def _argument(node: ast.Call, position: int, names: Collection[str] = ()) -> ast.expr | None:
    if position < len(node.args):
        return node.args[position]
    return next((keyword.value for keyword in node.keywords if keyword.arg in names), None)


def _is(node: ast.expr, *, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _writes(mode: str) -> bool:
    return not set("wax+").isdisjoint(re.split("[:|]", mode)[0])  # tarfile's `r:xz` reads


def _by_module(name: str) -> Effect | None:
    """The effect of a call by its module alone."""
    if "()" in name or name in effects.HARMLESS or name.endswith(("Error", "Exception", "Warning")):
        return None
    parts = name.split(".")
    modules = (".".join(parts[:length]) for length in range(1, len(parts) + 1))
    return next((effects.MODULES[module] for module in modules if module in effects.MODULES), None)


def _same(name: str) -> str:
    """The name that the tables use for an alias."""
    root, dot, rest = name.partition(".")
    name = f"{effects.SAME.get(root, root)}{dot}{rest}".removeprefix("builtins.")
    return effects.SAME.get(name, name)
