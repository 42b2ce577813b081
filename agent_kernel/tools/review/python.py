"""Finds the effects of Python code by a plain reading of its syntax tree: help for a person, and no guard.

`python_magics` translates IPython's syntax, `python_names` says what names and texts are, `effects` has the tables.
"""

import ast
import re
import shlex
import warnings
from collections.abc import Iterator

from agent_kernel.tools.review import effects, queries, secrets
from agent_kernel.tools.review.effects import words
from agent_kernel.tools.review.findings import Effect, Finding
from agent_kernel.tools.review.python_magics import magic, plain_python
from agent_kernel.tools.review.python_names import Names
from agent_kernel.tools.review.shell_effects import read_command

_LARGEST = 100_000
"""The longest code that is parsed, in characters. Parsing that much holds the GIL for up to 0.15 s."""
_REACHES_DEEP = words("""
    __subclasses__ __globals__ __builtins__ __code__ __loader__ __getattribute__ __dict__ f_builtins f_globals
    """)
"""Attributes through which anything can be reached, so that they can't be followed."""
_PLACES = words("os.environ sys.modules globals()")
"""What holds more than the program's own data."""
_SCRIPTS = words("text/html application/javascript image/svg+xml")
_START = 1_000
"""The most characters of a text that are processed if no more would be shown."""
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
_PATH = re.compile(r"(?i)(?:path|file|folder)\d?$|^(?:p|f|src)$")
_COLUMNS = re.compile(r"\bcolumns\b|\baxis=1\b|, 1\b")
_IN_MEMORY = words("io.StringIO() io.BytesIO() sys.stdout sys.stderr pandas.ExcelWriter()")
"""What is no file, or was reported when it was opened."""


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
    return list(_Program(Names(code, tree)).read())


class _Program:
    def __init__(self, names: Names) -> None:
        self._names = names
        composed = [node for node in names.order if isinstance(node, ast.Call | ast.Attribute | ast.Subscript)]
        self._parts = {node.func if isinstance(node, ast.Call) else node.value for node in composed}
        """Expressions that are handled with what contains them."""
        self._commands_read: set[str] = set()

    def read(self) -> Iterator[Finding]:
        for node in self._names.order:
            yield from self._node(node)

    def _node(self, node: ast.AST) -> Iterator[Finding]:
        match node:
            case ast.Call():
                yield from self._call(node)
            case ast.Name(ctx=ast.Load()) if node not in self._parts:
                yield from self._mentioned(node)
            case ast.Attribute():
                yield from self._attribute(node)
            case ast.Subscript():
                yield from self._subscript(node)
            case ast.Constant(value=str(text)) if node not in self._parts:
                yield from secrets.in_text(text)
            case ast.Delete(targets=targets):
                yield from (finding for target in targets for finding in self._deleted(target))
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Call(func=ast.Attribute(value=ast.Name(id=table))) as call
            ):
                if name == table:  # as in place, because the user loses the rows
                    yield from _dropped(call, self._names)
            case _:
                yield from self._named_texts(node)

    def _attribute(self, node: ast.Attribute) -> Iterator[Finding]:
        if node.attr in _REACHES_DEEP:
            yield "Runs code it builds:", self._names.code(node)
        if not isinstance(node.ctx, ast.Load):
            if self._names.name(node.value) in effects.CORE_MODULES:
                yield "Changes the kernel:", self._names.code(node)
        elif node not in self._parts:
            yield from self._mentioned(node)

    def _subscript(self, node: ast.Subscript) -> Iterator[Finding]:
        name = self._names.name(node.value)
        if isinstance(node.ctx, ast.Store) and name in _PLACES:
            yield "Changes the kernel:", self._names.code(node)
        elif isinstance(node.ctx, ast.Load) and name == "os.environ":
            yield from self._environment(node.slice, node)

    def _deleted(self, target: ast.expr) -> Iterator[Finding]:
        """What is deleted of earlier cells' data: what this code has made is its own."""
        code = self._names.code(target)
        match target:
            case ast.Subscript(value=value) if self._names.name(value) in _PLACES:
                yield "Deletes variables:" if self._names.name(value) == "globals()" else "Changes the kernel:", code
            case ast.Subscript(value=value) if not self._names.is_bound(value):
                yield "Deletes variables:" if self._names.text(target.slice) is None else "Deletes columns:", code
            case ast.Name() if not self._names.is_bound(target):
                yield "Deletes variables:", code
            case _:
                return

    def _named_texts(self, node: ast.AST) -> Iterator[Finding]:
        match node:
            case ast.keyword(arg=str(name), value=ast.Constant(value=str(text))):
                yield from secrets.set_to(name, text)
            case ast.Assign(targets=[target], value=ast.Constant(value=str(text))):
                # `password`, `self.password` or `settings["password"]`
                yield from secrets.set_to(re.split(r"\W+", self._names.code(target).rstrip("\"']"))[-1], text)
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    said = self._names.text(key) or ""
                    yield from secrets.set_to(said, self._names.text(value) or "")
                    if said in _SCRIPTS:
                        yield "Shows HTML or script:", self._names.code(value)
            case _:
                return

    def _call(self, node: ast.Call) -> Iterator[Finding]:
        name = self._names.name(node.func)
        found = [*self._opened(name, node), *self._function(name, node)]
        if not found and isinstance(node.func, ast.Attribute):
            found = list(self._method(node, node.func.value, node.func.attr))
        yield from found
        for keyword in node.keywords:
            if keyword.arg in _RISKY_ARGUMENTS and not _is(keyword.value, value=False):
                yield _RISKY_ARGUMENTS[keyword.arg], self._names.code(node)
        if getattr(node.func, "attr", getattr(node.func, "id", "")) not in effects.TAKES_ADDRESSES_AS_TEXT:
            for given in (*node.args, *(keyword.value for keyword in node.keywords)):
                start = (self._names.text(given) or "")[:_START]
                if start.lower().startswith(effects.REMOTE):
                    yield "Uses the network:", start

    def _mentioned(self, node: ast.Name | ast.Attribute) -> Iterator[Finding]:
        """The effects of a function that is named but not called, because it may be called later."""
        for does in effects.FUNCTIONS.get(self._names.name(node), ()):
            yield does.effect, self._names.code(node)
        if isinstance(node, ast.Attribute) and node.attr in effects.MENTIONED:
            yield effects.MENTIONED[node.attr], self._names.code(node)

    def _environment(self, key: ast.expr | None, node: ast.expr) -> Iterator[Finding]:
        """The effect of reading one environment variable, or all."""
        text = self._names.text(key)
        yield ("Reads secrets:", self._names.code(node)) if text is None else secrets.variable_read(text)

    def _is_safe(self, effect: Effect, node: ast.Call) -> bool:
        return effect in _SAFE and _SAFE[effect].search(self._names.code(node)) is not None

    def _opened(self, name: str, node: ast.Call) -> Iterator[Finding]:
        if name in effects.OPENERS and not self._is_safe("Writes files:", node):
            position, default = effects.OPENERS[name]
            mode = _argument(node, position, "mode", "flags")
            # A mode that the code does not say may write.
            if _writes(default if mode is None else self._names.text(mode) or "w"):
                yield "Writes files:", self._shown(node, 0)

    def _function(self, name: str, node: ast.Call) -> Iterator[Finding]:
        if name in effects.FUNCTIONS:
            for does in effects.FUNCTIONS[name]:
                if not self._is_safe(does.effect, node):
                    yield does.effect, self._shown(node, does.position)
                if does.effect == "Runs shell commands:":
                    yield from self._commands(_argument(node, does.position, *_SUBJECTS))
        elif (effect := _by_module(name)) is not None:
            yield effect, self._shown(node, 0)
        elif name == "os.getenv":
            yield from self._environment(_argument(node, 0), node)
        elif name in ("getattr", "setattr") and self._names.name(_argument(node, 0)) in effects.CORE_MODULES:
            yield "Runs code it builds:" if name == "getattr" else "Changes the kernel:", self._names.code(node)
        elif name in ("get_ipython().run_line_magic", "get_ipython().run_cell_magic"):
            yield from self._magic(node, name.endswith("cell_magic"))

    def _magic(self, node: ast.Call, is_cell: bool) -> Iterator[Finding]:
        name, line, body = ([*map(self._names.text, node.args), None, None, None])[:3]
        if name is None:
            yield "Runs code it builds:", self._names.code(node)
        else:
            yield from magic(name, line or "", body or "" if is_cell else None, self._command)

    def _commands(self, node: ast.expr | None) -> Iterator[Finding]:
        if isinstance(node, ast.List | ast.Tuple):
            yield from self._command(shlex.join(map(self._names.shown, node.elts)))
        elif (text := self._names.text(node)) is not None:
            yield from self._command(text)

    def _command(self, command: str) -> Iterator[Finding]:
        if command not in self._commands_read:
            self._commands_read.add(command)
            yield from read_command(command)

    def _method(self, node: ast.Call, receiver: ast.expr, method: str) -> Iterator[Finding]:
        if method in effects.WRITERS:
            target = _argument(node, 0, *_TARGETS)
            if target is not None and not _is(target, value=None) and self._names.name(target) not in _IN_MEMORY:
                yield "Writes files:", self._names.shown(target)
        elif method in effects.PATH_EFFECTS:
            yield effects.PATH_EFFECTS[method], self._names.shown(receiver)
        elif method == "open":  # `path.open(mode)` and `files.open(path, mode)`, but not `image.open(path)`
            texts = [self._names.text(given) or "" for given in (*node.args[:2], *(k.value for k in node.keywords))]
            if any(_MODE.fullmatch(text) and _writes(text) for text in texts):
                yield "Writes files:", self._names.shown(receiver if len(node.args) < 2 else node.args[0])
        elif method in effects.METHODS and getattr(receiver, "attr", "") != "str":
            yield effects.METHODS[method], self._shown(node, 0)
        elif method in queries.METHODS:
            yield from self._queried(node, method)
        else:
            yield from self._changed(node, method, self._names.code(receiver))

    def _changed(self, node: ast.Call, method: str, receiver: str) -> Iterator[Finding]:
        if any(keyword.arg == "inplace" and _is(keyword.value, value=True) for keyword in node.keywords):
            yield from _dropped(node, self._names)
        elif method == "rename" and len(node.args) == 1 and _PATH.search(receiver):
            yield "Writes files:", self._shown(node, 0)
        elif queries.changes_by_name(self._names.code(node.func)):
            yield "Changes a database:", self._names.code(node)
        elif effects.REMOTE_DELETE.fullmatch(method) or (method == "delete" and effects.REMOTE_THING.search(receiver)):
            yield "Deletes remote data:", self._names.code(node)

    def _queried(self, node: ast.Call, method: str) -> Iterator[Finding]:
        given = _argument(node, 0, *_SUBJECTS)
        text = self._names.text(given)
        if text is not None:
            yield from queries.changes(text)
        elif given is None or self._names.code(given)[:1].isupper():
            return  # `model.eval()`, and `session.query(Order)`: a class, not a statement
        elif method in queries.EXECUTES:
            yield "Not checked:", self._names.code(node)
        elif method in ("query", "eval"):
            yield "Runs code it builds:", self._names.shown(given)

    def _shown(self, node: ast.Call, position: int) -> str:
        """An argument's text or code for display, or the call's code if it has no such argument."""
        found = _argument(node, position, *(_TARGETS if position else _SUBJECTS))
        return self._names.code(node) if found is None else self._names.shown(found)


def _dropped(node: ast.Call, names: Names) -> Iterator[Finding]:
    """The effect of a method that drops rows or columns of a table."""
    assert isinstance(node.func, ast.Attribute)
    if node.func.attr == "drop" and _COLUMNS.search(names.code(node)):
        yield "Deletes columns:", names.code(node)
    elif node.func.attr in ("drop", "dropna", "drop_duplicates"):
        yield "Deletes rows:", names.code(node.func.value)


def _argument(node: ast.Call, position: int, *names: str) -> ast.expr | None:
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
