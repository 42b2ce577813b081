"""What a piece of Python does to files, data and the world, found by reading its syntax tree. It may do more."""

import ast
import re
import warnings
from collections.abc import Iterator

from agent_kernel.tools import effects
from agent_kernel.tools.findings import Finding
from agent_kernel.tools.reading_shell import read_command

_LARGEST = 100_000
"""Characters. To parse as many takes up to 0.15 s, in which Python runs nothing else."""
_START = 1_000
"""Characters of a text or an expression that are looked at, where no more of it would be shown."""
_MAGIC = re.compile(r"^(?P<target>[\w, \t]+=\s*)?(?P<mark>!!?|%%?)(?P<command>[^=\s].*)$")
_HELP = re.compile(r"^\s*(\?{1,2}[\w.]+|[\w.]+\?{1,2})\s*$")
_CELL_SHELLS = ("bash", "sh", "script", "system", "sx", "!")


def read_python(code: str) -> list[Finding]:
    """Effects in order of appearance. Code that can't be read says so."""
    if len(code) > _LARGEST:
        return [("Not checked:", "the code is too long to read")]
    found: list[Finding] = []
    try:
        try:
            reader = _visit(code)
        except SyntaxError:
            reader = _visit("\n".join(_without_magic(code, found)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [*found, ("Not checked:", "the code can't be read as Python")]
    return [*found, *reader.found]


def _visit(code: str) -> "_Reader":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(code)
    reader = _Reader()
    reader.visit(tree)
    return reader


def _without_magic(code: str, found: list[Finding]) -> Iterator[str]:
    """The lines of the code with IPython's own syntax taken out, and what that syntax does."""
    lines = code.split("\n")
    first = next((line for line in lines if line.strip()), "")
    if first.startswith("%%"):
        name = first[2:].split()[0] if first[2:].split() else ""
        body = lines[lines.index(first) + 1 :]
        if name in _CELL_SHELLS:
            found.append(("Runs shell commands:", next((line for line in body if line.strip()), "")))
            found.extend(read_command("\n".join(body)))
            return
        if name == "writefile":
            found.append(("Writes files:", first[2:].split()[-1]))
            return
        lines = body
    for line in lines:
        stripped = line.lstrip()  # by itself: within the pattern, long blanks take quadratic time
        match = _MAGIC.match(stripped)
        if _HELP.match(line):
            yield ""
            continue
        if match is None:
            yield line
            continue
        found.extend(_magic(match["mark"], match["command"].strip()))
        yield f"{line.removesuffix(stripped)}pass"


def _magic(mark: str, command: str) -> list[Finding]:
    name = command.split()[0] if command.split() else ""
    if mark.startswith("!") or name in ("sx", "system", "sc"):
        return [("Runs shell commands:", command), *read_command(command)]
    if name in ("pip", "conda", "mamba", "micromamba", "uv"):
        return read_command(command)
    if name in ("run", "load", "loadpy", "macro"):
        return [("Runs code it builds:", f"%{command}")]
    return []


class _Reader(ast.NodeVisitor):
    def __init__(self) -> None:
        self.found: list[Finding] = []
        self._names: dict[str, str] = {}
        """Imported names, and what they stand for."""
        self._values: dict[str, ast.expr] = {}
        """What a name was last set to, so that `path` can be shown as the path."""
        self._commands: dict[str, list[Finding]] = {}
        """What was found in shell commands: a program may run the same long one a thousand times."""

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.asname:
                self._names[alias.asname] = alias.name

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self._names[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            self._reassigned(name, node.value)
            self._values[name] = node.value

    def visit_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.found.append(("Deletes variables:", target.id))
            elif isinstance(target, ast.Subscript):
                is_column = isinstance(target.slice, ast.Constant) and isinstance(target.slice.value, str)
                self.found.append(("Deletes columns:" if is_column else "Deletes variables:", _code(target)))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        self.found.extend(self._call(node))
        self.found.extend(("Uses the network:", url) for url in self._remote(node))
        self.generic_visit(node)

    def _reassigned(self, name: str, value: ast.expr) -> None:
        """`df = df.dropna()` leaves the user without the rows, as an in-place call does."""
        if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
            return
        if isinstance(value.func.value, ast.Name) and value.func.value.id == name:
            self.found.extend(_dropped(value, value.func.attr, name))

    def _call(self, node: ast.Call) -> Iterator[Finding]:
        name = self._full_name(node.func)
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        module = name.rpartition(".")[0]
        if name in effects.FUNCTIONS:
            yield effects.FUNCTIONS[name], self._show(_argument(node, 0))
        elif name in effects.SECOND_ARGUMENT:
            yield effects.SECOND_ARGUMENT[name], self._show(_argument(node, 1))
        elif any(part in effects.MODULES for part in (module, module.partition(".")[0])):
            effect = effects.MODULES.get(module) or effects.MODULES[module.partition(".")[0]]
            yield effect, self._show(_argument(node, 0))
            if effect == "Runs shell commands:":
                yield from self._read_command(_argument(node, 0))
        elif name in effects.OPENERS or method == "open":
            yield from self._opened(node, name in effects.OPENERS)
        elif method:
            yield from self._method(node, method)
        if name in ("os.system", "os.popen", "get_ipython.system"):
            yield from self._read_command(_argument(node, 0))

    def _read_command(self, node: ast.expr | None) -> list[Finding]:
        command = self._command(node)
        if command not in self._commands:
            self._commands[command] = read_command(command)
        return self._commands[command]

    def _method(self, node: ast.Call, method: str) -> Iterator[Finding]:
        assert isinstance(node.func, ast.Attribute)
        receiver = node.func.value
        target = _argument(node, 0, "path_or_buf", "path", "fname", "buf", "excel_writer", "file")
        if method in effects.WRITERS and target is not None:
            yield "Writes files:", self._show(target)
        elif method in effects.PATH_WRITERS:
            yield "Writes files:", self._show(receiver)
        elif method in effects.PATH_DELETERS:
            yield "Deletes files:", self._show(receiver)
        elif _is_true(node, "inplace"):
            yield from _dropped(node, method, _code(receiver))
        elif method in effects.DATABASE_METHODS:
            statement = self._text(_argument(node, 0))[:_START].strip()
            if method == "to_sql" or effects.DATABASE_CHANGE.match(statement):
                yield "Changes a database:", statement

    def _opened(self, node: ast.Call, is_function: bool) -> Iterator[Finding]:
        mode = _argument(node, 1 if is_function else 0, "mode")
        if mode is None:
            return
        written = self._text(mode)
        if not isinstance(self._resolved(mode), ast.Constant) or set(written) & set("wax+"):
            file = _argument(node, 0, "file") if is_function else node.func
            yield "Writes files:", self._show(file.value if isinstance(file, ast.Attribute) else file)

    def _remote(self, node: ast.Call) -> Iterator[str]:
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            text = self._text(argument)[:_START]
            if text.lower().startswith(effects.REMOTE):
                yield text

    def _full_name(self, node: ast.expr) -> str:
        """`np.save` as `numpy.save`; empty for what is not a name with attributes."""
        if isinstance(node, ast.Name):
            # A variable that is named like a module (`requests = []`) is not the module.
            return "" if node.id in self._values else self._names.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            before = self._full_name(node.value)
            return f"{before}.{node.attr}" if before else ""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return node.func.id
        return ""

    def _resolved(self, node: ast.expr) -> ast.expr:
        return self._values.get(node.id, node) if isinstance(node, ast.Name) else node

    def _show(self, node: ast.expr | None) -> str:
        """A path as a person reads it: the text itself where it is known, else the code that makes it."""
        if node is None:
            return ""
        value = self._resolved(node)
        if isinstance(value, ast.Call) and self._full_name(value.func).endswith("Path") and len(value.args) == 1:
            value = self._resolved(value.args[0])
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            return value.value[:_START]
        return _code(node)

    def _text(self, node: ast.expr | None) -> str:
        """The text that an expression is known to start with; empty where it is not known."""
        value = self._resolved(node) if node is not None else None
        if isinstance(value, ast.JoinedStr) and value.values:
            value = value.values[0]
        return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""

    def _command(self, node: ast.expr | None) -> str:
        value = self._resolved(node) if node is not None else None
        if isinstance(value, ast.List | ast.Tuple):
            return " ".join(self._text(item) or "?" for item in value.elts)
        return self._text(value)


def _dropped(node: ast.Call, method: str, table: str) -> list[Finding]:
    if method in effects.ROW_DROPPERS:
        return [("Deletes rows:", table)]
    if method != "drop":
        return []
    axis = _argument(node, 1, "axis")
    columns = any(keyword.arg == "columns" for keyword in node.keywords)
    if columns or (isinstance(axis, ast.Constant) and axis.value in (1, "columns")):
        return [("Deletes columns:", _code(node))]
    return [("Deletes rows:", table)]


def _code(node: ast.expr) -> str:
    """The code of an expression. That of a long one is not put together: what is shown of it says no more."""
    lines = (node.end_lineno or node.lineno) - node.lineno
    length = (node.end_col_offset or 0) - node.col_offset
    return "(a long expression)" if lines > 10 or (lines == 0 and length > _START) else ast.unparse(node)


def _argument(node: ast.Call, position: int, *names: str) -> ast.expr | None:
    if position < len(node.args):
        return node.args[position]
    return next((keyword.value for keyword in node.keywords if keyword.arg in names), None)


def _is_true(node: ast.Call, name: str) -> bool:
    return any(k.arg == name and isinstance(k.value, ast.Constant) and k.value.value is True for k in node.keywords)
