"""Finds the effects of calls in Python code, by the tables in `effects`."""

import ast
import re
from collections.abc import Callable, Iterator

from agent_kernel.tools.review import effects, queries, usual_names
from agent_kernel.tools.review.effects import Does, words
from agent_kernel.tools.review.findings import Effect, Finding
from agent_kernel.tools.review.python_arguments import TARGETS, argument, is_constant, is_true, shown
from agent_kernel.tools.review.python_files import Files
from agent_kernel.tools.review.python_magics import Nested, magic
from agent_kernel.tools.review.python_names import Names, Text
from agent_kernel.tools.review.secrets import variable_read

_START = 1_000
"""The most characters of a text that are processed if no more would be shown."""
_SAFE_LOADERS = ("SafeLoader", "CSafeLoader", "BaseLoader", "CBaseLoader")
_ACTIVE_HTML = re.compile(
    r"(?i)<\s*(?:script|iframe|object|embed|form|meta|link|base|svg)|\bon\w+\s*=|javascript:|srcdoc"
)
_SPARK_WRITERS = words("parquet csv json orc text jdbc save")
_MOVES = words("os.rename os.renames os.replace shutil.move")
"""Functions that remove a file from its place by moving it."""
_SYSTEM_CALLS = ("os.exec", "os.spawn", "os.posix_spawn")


class Calls:
    def __init__(self, names: Names, read_code: Nested, read_command: Nested) -> None:
        self._names = names
        self._files = Files(names)
        self._read_code = read_code
        self._read_command = read_command

    def read(self, node: ast.Call) -> Iterator[Finding]:
        functions = self._names.meanings(node.func)
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        known = any(function in effects.OPENERS or function == "os.open" for function in functions)
        for function in functions:
            for finding in self._function(function, node):
                known = True
                yield finding
        if method and not known:
            yield from self._method(node, method)
        yield from self._remote(node, method or getattr(node.func, "id", ""))

    def mentioned(self, node: ast.Name | ast.Attribute) -> Iterator[Finding]:
        """The effects of a function that is named but not called, because it may be called later."""
        for meaning in self._names.meanings(node):
            for does in effects.FUNCTIONS.get(meaning, ()):
                yield does.effect, self._names.code(node)
        if isinstance(node, ast.Attribute) and node.attr in effects.MENTIONED:
            yield effects.MENTIONED[node.attr], self._names.code(node)

    def keyword(self, node: ast.keyword) -> Iterator[Finding]:
        """Effects of arguments, whatever function is called."""
        if node.arg == "trust_remote_code" and not is_constant(node.value, value=False):
            yield "Runs code it builds:", f"{node.arg}={self._names.code(node.value)}"

    # Functions

    def _function(self, name: str, node: ast.Call) -> Iterator[Finding]:
        if name in effects.OPENERS or name == "os.open":
            yield from self._files.opened(node, name)
        if name in effects.FUNCTIONS and not self._is_safe(name, node):
            for does in effects.FUNCTIONS[name]:
                yield from self._does(name, does, node)
        elif (effect := _by_module(name)) is not None:
            yield effect, self._shown(node, 0)
        elif (special := _SPECIAL.get(name)) is not None:
            yield from special(self, node)
        elif name.startswith("get_ipython()."):
            yield from self._shell_method(name.rpartition(".")[2], node)

    def _does(self, name: str, does: Does, node: ast.Call) -> Iterator[Finding]:
        changes_file = does.effect in ("Deletes files:", "Writes files:") and name not in _MOVES
        if changes_file and self._files.is_temporary(argument(node, does.position)):
            return
        yield does.effect, self._shown(node, does.position)
        if does.effect == "Runs shell commands:":
            for command in self._commands(name, node):
                yield from self._read_command(command)
        elif does.effect == "Runs code it builds:":
            for text in self._names.texts(argument(node, 0)):
                yield from self._read_code(text.text)

    def _is_safe(self, name: str, node: ast.Call) -> bool:
        """Handle functions with an argument that keeps them from running anything."""
        if name.startswith(("yaml.load", "ruamel.yaml.load")):
            loader = argument(node, 1, "Loader")
            return any(meaning.endswith(_SAFE_LOADERS) for meaning in self._names.meanings(loader))
        if name == "torch.load":
            return is_constant(argument(node, 9, "weights_only"), value=True)
        if name == "compile":
            return len(node.args) + len(node.keywords) < 2
        return name == "os.fdopen"

    def _evaluated(self, node: ast.Call) -> Iterator[Finding]:
        """Handle `pandas.eval`."""
        texts = self._names.texts(argument(node, 0, "expr"))
        if not texts or any(queries.evaluates_code(text.text, whole=text.whole) for text in texts):
            yield "Runs code it builds:", self._shown(node, 0)
            for text in texts:
                yield from self._read_code(text.text.strip())

    def _statement(self, node: ast.Call) -> Iterator[Finding]:
        """Handle functions that run a text as code, but have harmless uses as well."""
        given = argument(node, 0, "stmt", "statement")
        if given is None or isinstance(given, ast.Lambda):
            return
        texts = self._names.texts(given)
        if not texts and not self._names.meanings(given):
            yield "Runs code it builds:", self._names.shown(given)
        for text in texts:
            yield from self._read_code(text.text)

    def _unpickled(self, node: ast.Call) -> Iterator[Finding]:
        allowed = argument(node, 2, "allow_pickle")
        if allowed is not None and not is_constant(allowed, value=False):
            yield "Loads data that may run code:", self._shown(node, 0)

    def _attribute_read(self, node: ast.Call) -> Iterator[Finding]:
        """Handle `getattr(os, name)`, whose result is unknown if the name is computed."""
        texts = self._names.texts(argument(node, 1))
        for text in texts:
            if text.text in effects.MENTIONED:
                yield effects.MENTIONED[text.text], self._names.code(node)
        if self._is_core(argument(node, 0)) and not (texts and all(text.whole for text in texts)):
            yield "Runs code it builds:", self._names.code(node)

    def _attribute_set(self, node: ast.Call) -> Iterator[Finding]:
        if self._is_core(argument(node, 0)):
            yield "Changes the kernel:", self._names.code(node)

    def _is_core(self, node: ast.expr | None) -> bool:
        return not usual_names.CORE_MODULES.isdisjoint(self._names.meanings(node))

    def _getter(self, node: ast.Call) -> Iterator[Finding]:
        """Handle `operator.attrgetter` and the like, which name a function by a text."""
        for text in self._names.texts(argument(node, 0)):
            for module in ("os", "subprocess", "shutil", "builtins"):
                full = f"{module}.{text.text}".removeprefix("builtins.")
                for does in effects.FUNCTIONS.get(full, ()):
                    yield does.effect, self._names.code(node)

    def _environment(self, node: ast.Call) -> Iterator[Finding]:
        yield from environment_read(self._names.texts(argument(node, 0)), self._names.code(node))

    def _whole_environment(self, node: ast.Call) -> Iterator[Finding]:
        yield "Reads secrets:", self._names.code(node.func)

    def _html(self, node: ast.Call) -> Iterator[Finding]:
        given = argument(node, 0, "data", "value")
        if given is None or (isinstance(given, ast.Call) and _is_table_as_html(given)):
            return
        texts = self._names.texts(given)
        if not texts or any(not text.whole or _ACTIVE_HTML.search(text.text[:100_000]) for text in texts):
            yield "Shows HTML or script:", self._shown(node, 0)

    def _displayed(self, node: ast.Call) -> Iterator[Finding]:
        if any(keyword.arg == "raw" for keyword in node.keywords):
            yield "Shows HTML or script:", self._shown(node, 0)

    def _database_read(self, node: ast.Call) -> Iterator[Finding]:
        yield from self._statements(node, "sql")

    # IPython's shell

    def _shell_method(self, method: str, node: ast.Call) -> Iterator[Finding]:
        if method not in ("run_line_magic", "run_cell_magic", "magic"):
            return
        given = [self._names.texts(argument) for argument in node.args[:3]]
        if not given or not given[0]:
            yield "Runs code it builds:", self._names.code(node)
            return
        name = given[0][0].text
        line, body = (
            (given[position][0].text if len(given) > position and given[position] else "") for position in (1, 2)
        )
        if method == "magic":
            name, _, line = name.lstrip("%").partition(" ")
        is_cell = method == "run_cell_magic"
        yield from magic(name, line, body if is_cell else None, self._read_code, self._read_command)

    # Methods

    def _method(self, node: ast.Call, method: str) -> Iterator[Finding]:
        assert isinstance(node.func, ast.Attribute)
        receiver = node.func.value
        if method in effects.WRITERS:
            target = argument(node, 0, *TARGETS)
            if target is not None and not self._files.is_temporary(target) and not is_constant(target, value=None):
                yield "Writes files:", self._names.shown(target)
        elif (effect := self._files.effect(method, node)) is not None:
            if not self._files.is_temporary(receiver):
                moved = method in effects.PATH_MOVERS
                yield effect, shown(self._names, node, 0) if moved else self._names.shown(receiver)
        elif method == "open":
            yield from self._files.opened_by_method(node, receiver)
        elif method in effects.METHODS and not _is_on_texts(receiver):
            effect = effects.METHODS[method]
            yield effect, self._shown(node, 0)
            if effect == "Runs shell commands:":
                for text in self._names.texts(argument(node, 0)):
                    yield from self._read_command(text.text)
        elif is_true(node, "inplace"):
            yield from dropped(node, method, self._names.code(receiver), self._names)
        else:
            yield from self._data_method(node, method, receiver)

    def _data_method(self, node: ast.Call, method: str, receiver: ast.expr) -> Iterator[Finding]:
        text = self._names.code(receiver)
        if method in queries.METHODS or (method == "eval" and node.args):
            yield from self._queried(node, method, text)
        elif method == "pop" and isinstance(receiver, ast.Name) and len(node.args) == 1:
            # Only for tables of earlier cells: what this code has made is its own, and often no table.
            if self._names.texts(node.args[0]) and not self._names.is_bound(receiver.id):
                yield "Deletes columns:", self._names.code(node)
        elif queries.changes_by_name(method, text, has_arguments=bool(node.args or node.keywords)):
            yield "Changes a database:", self._names.code(node)
        elif method in _SPARK_WRITERS and ".write" in text:
            yield "Writes files:", self._shown(node, 0)
        elif effects.REMOTE_DELETE.fullmatch(method) or (method == "delete" and effects.REMOTE_THING.search(text)):
            yield "Deletes remote data:", self._names.code(node)
        elif method == "rm":
            texts = self._names.texts(argument(node, 0))
            is_remote = any(known.text.startswith(effects.REMOTE) for known in texts)
            yield "Deletes remote data:" if is_remote else "Deletes files:", self._shown(node, 0)

    def _queried(self, node: ast.Call, method: str, receiver: str) -> Iterator[Finding]:
        given = argument(node, 0, "statement", "sql", "query", "operation", "expr")
        if given is None:
            return
        if method == "to_sql":
            yield "Changes a database:", self._names.shown(given)
            return
        texts = self._names.texts(given)
        if not texts:
            is_database = method in queries.EXECUTES or queries.is_connection(receiver)
            if isinstance(given, ast.Name | ast.Attribute) and self._names.code(given)[:1].isupper():
                return  # `session.query(Order)`: a class, not a statement
            if is_database and method != "eval":
                yield "Not checked:", self._names.code(node)
            elif method in ("query", "eval"):
                yield "Runs code it builds:", self._names.shown(given)
            return
        found = list(self._statements(node, "statement"))
        runs_code = any(queries.runs_code(text.text, whole=text.whole) for text in texts)
        if not found and method in ("query", "eval") and runs_code:
            found.append(("Runs code it builds:", self._names.shown(given)))
        yield from found

    def _statements(self, node: ast.Call, keyword: str) -> Iterator[Finding]:
        for text in self._names.texts(argument(node, 0, keyword)):
            yield from queries.changes(text.text)

    # Arguments

    def _shown(self, node: ast.Call, position: int) -> str:
        return shown(self._names, node, position) if node.args or node.keywords else self._names.code(node)

    def _commands(self, name: str, node: ast.Call) -> Iterator[str]:
        """The command lines that a call runs."""
        if name.startswith((*_SYSTEM_CALLS, "asyncio.create_subprocess_exec")):
            yield " ".join(self._words(node, name))
            return
        given = argument(node, 0, "args", "cmd", "command")
        if isinstance(given, ast.Name):
            given = self._names.value(given) or given
        if isinstance(given, ast.List | ast.Tuple):
            yield " ".join(self._word(item) for item in given.elts)
        else:
            yield from (text.text for text in self._names.texts(given))

    def _words(self, node: ast.Call, name: str) -> list[str]:
        arguments = node.args[1:] if name.startswith("os.spawn") else node.args
        for given in arguments:
            if isinstance(given, ast.List | ast.Tuple):
                return [self._word(item) for item in given.elts]
        # `exec*` functions name the program twice: as the file to run and as its first argument.
        return [self._word(given) for given in (arguments[1:] if name.startswith("os.") else arguments)]

    def _word(self, node: ast.expr) -> str:
        texts = self._names.texts(node)
        word = texts[0].text if texts else self._names.code(node)
        plain = not re.search(r"[\s'\"$`;&|<>()*?\[\]{}\\#~]", word)
        return word if plain else "'" + word.replace("'", "'\\''") + "'"

    def _remote(self, node: ast.Call, name: str) -> Iterator[Finding]:
        if name in effects.TAKES_ADDRESSES_AS_TEXT:
            return
        for given in (*node.args, *(keyword.value for keyword in node.keywords)):
            for text in self._names.texts(given):
                start = text.text[:_START]
                if start.lower().startswith(effects.REMOTE):
                    yield "Uses the network:", start


def environment_read(keys: tuple[Text, ...], code: str) -> Iterator[Finding]:
    """The effect of reading one environment variable, or all."""
    if not keys:
        yield "Reads secrets:", code
    yield from (variable_read(key.text, whole=key.whole) for key in keys)


def dropped(node: ast.Call, method: str, table: str, names: Names) -> Iterator[Finding]:
    if method in effects.ROW_DROPPERS:
        yield "Deletes rows:", table
    elif method == "drop":
        axis = argument(node, 1, "axis")
        columns = any(keyword.arg == "columns" for keyword in node.keywords)
        if columns or (isinstance(axis, ast.Constant) and axis.value in (1, "columns")):
            yield "Deletes columns:", names.code(node)
        else:
            yield "Deletes rows:", table


def _by_module(name: str) -> Effect | None:
    """The effect of a call by its module alone; for results of calls, if they are clients of the module."""
    before, _, after = name.rpartition("()")
    last = name.rpartition(".")[2]
    if "()" not in name and (name.startswith("sklearn.datasets.fetch_") or name.endswith(".load_data")):
        return "Uses the network:"
    if name in effects.HARMLESS or last.endswith(("Error", "Exception", "Warning")):
        return None
    if before:
        maker = before.rpartition(".")[2]
        if "()" in before or not (maker[:1].isupper() or maker in effects.CLIENTS) or not after:
            return None
    parts = (before or name).split(".")
    modules = (".".join(parts[:length]) for length in range(1, len(parts) + 1))
    return next((effects.MODULES[module] for module in modules if module in effects.MODULES), None)


def _is_table_as_html(node: ast.Call) -> bool:
    """Whether HTML comes from `df.to_html()`, which escapes the table's content."""
    is_method = isinstance(node.func, ast.Attribute) and node.func.attr in ("to_html", "_repr_html_")
    return is_method and not any(keyword.arg in ("escape", None) for keyword in node.keywords)


def _is_on_texts(receiver: ast.expr) -> bool:
    """Whether a method is of `.str`, for the texts in a column."""
    return isinstance(receiver, ast.Attribute) and receiver.attr == "str"


_SPECIAL: dict[str, Callable[[Calls, ast.Call], Iterator[Finding]]] = {
    "pandas.eval": Calls._evaluated,
    "numexpr.evaluate": Calls._evaluated,
    **dict.fromkeys(
        ("timeit.timeit", "timeit.repeat", "timeit.Timer", "cProfile.run", "profile.run"), Calls._statement
    ),
    **dict.fromkeys(("cProfile.runctx", "pdb.run", "pdb.runeval", "trace.Trace().run"), Calls._statement),
    **dict.fromkeys(("numpy.load", "numpy.lib.format.read_array"), Calls._unpickled),
    "getattr": Calls._attribute_read,
    **dict.fromkeys(("setattr", "delattr"), Calls._attribute_set),
    **dict.fromkeys(("operator.attrgetter", "operator.methodcaller"), Calls._getter),
    "os.getenv": Calls._environment,
    **dict.fromkeys(("os.environ.copy", "os.environ.items", "os.environ.values"), Calls._whole_environment),
    **dict.fromkeys(("IPython.display.HTML", "ipywidgets.HTML", "IPython.display.SVG"), Calls._html),
    **dict.fromkeys(
        ("IPython.display.display", "IPython.display.display_html", "IPython.display.display_svg"), Calls._displayed
    ),
    **dict.fromkeys(queries.READERS, Calls._database_read),
}
