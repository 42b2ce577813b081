"""What a call in a piece of Python does, by the tables of `effects`: functions by their name, methods by theirs."""

import ast
import re
from collections.abc import Callable, Iterator

from agent_kernel.tools import effects, reading_queries, usual_names
from agent_kernel.tools.effects import Does, words
from agent_kernel.tools.findings import Effect, Finding
from agent_kernel.tools.reading_magics import Nested, magic
from agent_kernel.tools.reading_names import Names, Text
from agent_kernel.tools.reading_secrets import variable_read

_START = 1_000
"""Characters of a text that are looked at, where no more of it would be shown."""
_MODE = re.compile(r"[rwaxbtU+-]{1,4}(?:[:|]\w*)?")
_READ_FLAGS = words("O_RDONLY O_CLOEXEC O_NOFOLLOW O_DIRECTORY O_NONBLOCK O_BINARY O_PATH O_NOCTTY")
_SAFE_LOADERS = ("SafeLoader", "CSafeLoader", "BaseLoader", "CBaseLoader")
_TARGET_NAMES = (
    "path",
    "path_or_buf",
    "fname",
    "filename",
    "file",
    "buf",
    "excel_writer",
    "dst",
    "target",
    "f",
    "name",
)
_IN_MEMORY = ("io.StringIO()", "io.BytesIO()", "sys.stdout", "sys.stderr", "pandas.ExcelWriter()")
"""No files, or files that were told of when they were opened."""
_PATHLIKE = re.compile(r"(?i)(?:path|file|folder|dir|dest|target)s?\d?$|^(?:p|f|fp|src|dst)$")
_ACTIVE_HTML = re.compile(
    r"(?i)<\s*(?:script|iframe|object|embed|form|meta|link|base|svg)|\bon\w+\s*=|javascript:|srcdoc"
)
_SPARK_WRITERS = words("parquet csv json orc text jdbc save")
_SYSTEM_CALLS = ("os.exec", "os.spawn", "os.posix_spawn")


class Calls:
    def __init__(self, names: Names, read_code: Nested, read_command: Nested) -> None:
        self._names = names
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
        """What a function does that is named, not called: it may be called later."""
        for meaning in self._names.meanings(node):
            for does in effects.FUNCTIONS.get(meaning, ()):
                yield does.effect, self._names.code(node)
        if isinstance(node, ast.Attribute) and node.attr in effects.MENTIONED:
            yield effects.MENTIONED[node.attr], self._names.code(node)

    def keyword(self, node: ast.keyword) -> Iterator[Finding]:
        """Arguments that say what their call does, whatever it is."""
        if node.arg == "trust_remote_code" and not _is_constant(node.value, value=False):
            yield "Runs code it builds:", f"{node.arg}={self._names.code(node.value)}"

    # Functions

    def _function(self, name: str, node: ast.Call) -> Iterator[Finding]:
        if name in effects.OPENERS or name == "os.open":
            yield from self._opened(node, name)
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
        if does.effect in ("Deletes files:", "Writes files:") and self._is_temporary(_argument(node, does.position)):
            return
        yield does.effect, self._shown(node, does.position)
        if does.effect == "Runs shell commands:":
            for command in self._commands(name, node):
                yield from self._read_command(command)
        elif does.effect == "Runs code it builds:":
            for text in self._names.texts(_argument(node, 0)):
                yield from self._read_code(text.text)

    def _is_safe(self, name: str, node: ast.Call) -> bool:
        """Functions that run nothing where they are asked not to."""
        if name.startswith(("yaml.load", "ruamel.yaml.load")):
            loader = _argument(node, 1, "Loader")
            return any(meaning.endswith(_SAFE_LOADERS) for meaning in self._names.meanings(loader))
        if name == "torch.load":
            return _is_constant(_argument(node, 9, "weights_only"), value=True)
        if name == "compile":
            return len(node.args) + len(node.keywords) < 2
        return name == "os.fdopen"

    def _opened(self, node: ast.Call, name: str) -> Iterator[Finding]:
        position, mode = effects.OPENERS.get(name, (1, "w"))
        target = self._argument_shown(node, 0)
        if any(isinstance(argument, ast.Starred) for argument in node.args) or any(
            k.arg is None for k in node.keywords
        ):
            yield "Writes files:", self._names.code(node)
            return
        given = _argument(node, position, "mode", "flags")
        if name == "os.open":
            named = {part.attr for part in ast.walk(given) if isinstance(part, ast.Attribute)} if given else {"?"}
            writes = not named or not named <= _READ_FLAGS
        else:
            texts = self._names.texts(given) if given is not None else (Text(mode, whole=True),)
            writes = not texts or any(_writes(text, name) for text in texts)
        if writes and not self._is_temporary(_argument(node, 0, *_TARGET_NAMES)):
            yield "Writes files:", target

    def _evaluated(self, node: ast.Call) -> Iterator[Finding]:
        """`pandas.eval`."""
        texts = self._names.texts(_argument(node, 0, "expr"))
        if not texts or any(reading_queries.evaluates_code(text.text, whole=text.whole) for text in texts):
            yield "Runs code it builds:", self._shown(node, 0)
            for text in texts:
                yield from self._read_code(text.text.strip())

    def _statement(self, node: ast.Call) -> Iterator[Finding]:
        """Functions that run a text as code, and much else that is harmless."""
        given = _argument(node, 0, "stmt", "statement")
        if given is None or isinstance(given, ast.Lambda):
            return
        texts = self._names.texts(given)
        if not texts and not self._names.meanings(given):
            yield "Runs code it builds:", self._names.shown(given)
        for text in texts:
            yield from self._read_code(text.text)

    def _unpickled(self, node: ast.Call) -> Iterator[Finding]:
        allowed = _argument(node, 2, "allow_pickle")
        if allowed is not None and not _is_constant(allowed, value=False):
            yield "Loads data that may run code:", self._shown(node, 0)

    def _attribute_read(self, node: ast.Call) -> Iterator[Finding]:
        """`getattr(os, name)`: what it is can't be told where the name is made as the code runs."""
        texts = self._names.texts(_argument(node, 1))
        for text in texts:
            if text.text in effects.MENTIONED:
                yield effects.MENTIONED[text.text], self._names.code(node)
        if self._is_core(_argument(node, 0)) and not (texts and all(text.whole for text in texts)):
            yield "Runs code it builds:", self._names.code(node)

    def _attribute_set(self, node: ast.Call) -> Iterator[Finding]:
        if self._is_core(_argument(node, 0)):
            yield "Changes the kernel:", self._names.code(node)

    def _is_core(self, node: ast.expr | None) -> bool:
        return not usual_names.CORE_MODULES.isdisjoint(self._names.meanings(node))

    def _getter(self, node: ast.Call) -> Iterator[Finding]:
        """`operator.attrgetter` and the like, which name a function by its text."""
        for text in self._names.texts(_argument(node, 0)):
            for module in ("os", "subprocess", "shutil", "builtins"):
                full = f"{module}.{text.text}".removeprefix("builtins.")
                for does in effects.FUNCTIONS.get(full, ()):
                    yield does.effect, self._names.code(node)

    def _environment(self, node: ast.Call) -> Iterator[Finding]:
        yield from environment_read(self._names.texts(_argument(node, 0)), self._names.code(node))

    def _whole_environment(self, node: ast.Call) -> Iterator[Finding]:
        yield "Reads secrets:", self._names.code(node.func)

    def _html(self, node: ast.Call) -> Iterator[Finding]:
        given = _argument(node, 0, "data", "value")
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
            target = _argument(node, 0, *_TARGET_NAMES)
            if target is not None and not self._is_temporary(target) and not _is_constant(target, value=None):
                yield "Writes files:", self._names.shown(target)
        elif (effect := self._path_effect(method, node)) is not None:
            if not self._is_temporary(receiver):
                moved = method in effects.PATH_MOVERS
                yield effect, self._argument_shown(node, 0) if moved else self._names.shown(receiver)
        elif method == "open":
            yield from self._opened_by_method(node, receiver)
        elif method in effects.METHODS and not _is_on_texts(receiver):
            effect = effects.METHODS[method]
            yield effect, self._shown(node, 0)
            if effect == "Runs shell commands:":
                for text in self._names.texts(_argument(node, 0)):
                    yield from self._read_command(text.text)
        elif _is_true(node, "inplace"):
            yield from dropped(node, method, self._names.code(receiver), self._names)
        else:
            yield from self._data_method(node, method, receiver)

    def _data_method(self, node: ast.Call, method: str, receiver: ast.expr) -> Iterator[Finding]:
        text = self._names.code(receiver)
        if method in reading_queries.METHODS or (method == "eval" and node.args):
            yield from self._queried(node, method, text)
        elif method == "pop" and isinstance(receiver, ast.Name) and len(node.args) == 1:
            # Of a table of an earlier cell. What this code has made is its own, and more often no table.
            if self._names.texts(node.args[0]) and not self._names.is_bound(receiver.id):
                yield "Deletes columns:", self._names.code(node)
        elif reading_queries.changes_by_name(method, text, has_arguments=bool(node.args or node.keywords)):
            yield "Changes a database:", self._names.code(node)
        elif method in _SPARK_WRITERS and ".write" in text:
            yield "Writes files:", self._shown(node, 0)
        elif effects.REMOTE_DELETE.fullmatch(method) or (method == "delete" and effects.REMOTE_THING.search(text)):
            yield "Deletes remote data:", self._names.code(node)
        elif method == "rm":
            texts = self._names.texts(_argument(node, 0))
            is_remote = any(known.text.startswith(effects.REMOTE) for known in texts)
            yield "Deletes remote data:" if is_remote else "Deletes files:", self._shown(node, 0)

    def _path_effect(self, method: str, node: ast.Call) -> Effect | None:
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

    def _opened_by_method(self, node: ast.Call, receiver: ast.expr) -> Iterator[Finding]:
        """`path.open(mode)`, or `files.open(path, mode)`; not `image.open(path)`."""
        if _has_unknown_arguments(node):
            yield "Writes files:", self._names.code(node)
            return
        for position, argument in enumerate([*node.args[:2], *(k.value for k in node.keywords if k.arg == "mode")]):
            texts = self._names.texts(argument)
            is_mode = bool(texts) and all(_MODE.fullmatch(text.text) for text in texts)
            unknown = not texts and (position > 0 or self._is_path(node.func))
            if (is_mode and any(_writes(text, "") for text in texts)) or unknown:
                if not self._is_temporary(receiver):
                    is_path = position == 0 or not node.args or len(node.args) == 1
                    yield "Writes files:", self._names.shown(receiver if is_path else node.args[0])
                return

    def _queried(self, node: ast.Call, method: str, receiver: str) -> Iterator[Finding]:
        argument = _argument(node, 0, "statement", "sql", "query", "operation", "expr")
        if argument is None:
            return
        if method == "to_sql":
            yield "Changes a database:", self._names.shown(argument)
            return
        texts = self._names.texts(argument)
        if not texts:
            is_database = method in reading_queries.EXECUTES or reading_queries.is_connection(receiver)
            if isinstance(argument, ast.Name | ast.Attribute) and self._names.code(argument)[:1].isupper():
                return  # `session.query(Order)`: a class is no text
            if is_database and method != "eval":
                yield "Not checked:", self._names.code(node)
            elif method in ("query", "eval"):
                yield "Runs code it builds:", self._names.shown(argument)
            return
        found = list(self._statements(node, "statement"))
        runs_code = any(reading_queries.runs_code(text.text, whole=text.whole) for text in texts)
        if not found and method in ("query", "eval") and runs_code:
            found.append(("Runs code it builds:", self._names.shown(argument)))
        yield from found

    def _statements(self, node: ast.Call, keyword: str) -> Iterator[Finding]:
        for text in self._names.texts(_argument(node, 0, keyword)):
            yield from reading_queries.changes(text.text)

    # Arguments

    def _shown(self, node: ast.Call, position: int) -> str:
        return self._argument_shown(node, position) if node.args or node.keywords else self._names.code(node)

    def _argument_shown(self, node: ast.Call, position: int) -> str:
        names = (
            _TARGET_NAMES if position else ("path", "filename", "file", "src", "url", "args", "cmd", "command", "name")
        )
        argument = _argument(node, position, *names)
        if argument is None and len(node.args) <= position:
            argument = next((k.value for k in node.keywords if k.arg is not None), None) if not node.args else None
        return self._names.shown(argument) if argument is not None else self._names.code(node)

    def _commands(self, name: str, node: ast.Call) -> Iterator[str]:
        """The commands that a call runs, as a shell would read them."""
        if name.startswith((*_SYSTEM_CALLS, "asyncio.create_subprocess_exec")):
            yield " ".join(self._words(node, name))
            return
        given = _argument(node, 0, "args", "cmd", "command")
        if isinstance(given, ast.Name):
            given = self._names.value(given) or given
        if isinstance(given, ast.List | ast.Tuple):
            yield " ".join(self._word(item) for item in given.elts)
        else:
            yield from (text.text for text in self._names.texts(given))

    def _words(self, node: ast.Call, name: str) -> list[str]:
        arguments = node.args[1:] if name.startswith("os.spawn") else node.args
        for argument in arguments:
            if isinstance(argument, ast.List | ast.Tuple):
                return [self._word(item) for item in argument.elts]
        # Programs are named twice: as what is run, and as what they are told that they are.
        return [self._word(argument) for argument in (arguments[1:] if name.startswith("os.") else arguments)]

    def _word(self, node: ast.expr) -> str:
        texts = self._names.texts(node)
        word = texts[0].text if texts else self._names.code(node)
        plain = not re.search(r"[\s'\"$`;&|<>()*?\[\]{}\\#~]", word)
        return word if plain else "'" + word.replace("'", "'\\''") + "'"

    def _is_temporary(self, node: ast.expr | None) -> bool:
        """Whether a path is within what `tempfile` has just made, or no file at all."""
        for _ in range(5):
            meanings = self._names.meanings(node)
            if meanings and all(m.startswith("tempfile.") or m in _IN_MEMORY for m in meanings):
                return self._is_sure(node)
            node = self._start_of_path(node)
            if node is None:
                return False
        return False

    def _is_sure(self, node: ast.expr | None) -> bool:
        """Whether the names in an expression stand for one thing only."""
        parts = list(ast.walk(node))[:20] if node is not None else []
        return all(self._names.is_bound_once(part.id) for part in parts if isinstance(part, ast.Name))

    def _start_of_path(self, node: ast.expr | None) -> ast.expr | None:
        """What a path is put together from, where the rest stays below it."""
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

    def _remote(self, node: ast.Call, name: str) -> Iterator[Finding]:
        if name in effects.TAKES_ADDRESSES_AS_TEXT:
            return
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            for text in self._names.texts(argument):
                start = text.text[:_START]
                if start.lower().startswith(effects.REMOTE):
                    yield "Uses the network:", start


def environment_read(keys: tuple[Text, ...], code: str) -> Iterator[Finding]:
    """What it is to read one of the environment's variables, or all of them."""
    if not keys:
        yield "Reads secrets:", code
    yield from (variable_read(key.text, whole=key.whole) for key in keys)


def dropped(node: ast.Call, method: str, table: str, names: Names) -> Iterator[Finding]:
    if method in effects.ROW_DROPPERS:
        yield "Deletes rows:", table
    elif method == "drop":
        axis = _argument(node, 1, "axis")
        columns = any(keyword.arg == "columns" for keyword in node.keywords)
        if columns or (isinstance(axis, ast.Constant) and axis.value in (1, "columns")):
            yield "Deletes columns:", names.code(node)
        else:
            yield "Deletes rows:", table


def _by_module(name: str) -> Effect | None:
    """What a call does by its module alone; of what calls have given, where that is a client of the module."""
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


def _writes(mode: Text, function: str) -> bool:
    if not mode.whole:
        return True
    # `r:xz` reads.
    return bool(
        set(mode.text.partition(":")[0].partition("|")[0] if function.startswith("tarfile") else mode.text)
        & set("wax+")
    )


def _stays_below(part: str) -> bool:
    return not part.startswith(("/", "~", "\\")) and ".." not in part and ":" not in part


def _is_table_as_html(node: ast.Call) -> bool:
    """`df.to_html()` escapes what is in the table."""
    is_method = isinstance(node.func, ast.Attribute) and node.func.attr in ("to_html", "_repr_html_")
    return is_method and not any(keyword.arg in ("escape", None) for keyword in node.keywords)


def _is_on_texts(receiver: ast.expr) -> bool:
    """`table.text.str` has methods for the texts in a column."""
    return isinstance(receiver, ast.Attribute) and receiver.attr == "str"


def _argument(node: ast.Call, position: int, *names: str) -> ast.expr | None:
    if position < len(node.args):
        return node.args[position]
    return next((keyword.value for keyword in node.keywords if keyword.arg in names), None)


def _has_unknown_arguments(node: ast.Call) -> bool:
    return any(isinstance(argument, ast.Starred) for argument in node.args) or any(k.arg is None for k in node.keywords)


def _is_constant(node: ast.expr | None, *, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _is_true(node: ast.Call, name: str) -> bool:
    return any(k.arg == name and _is_constant(k.value, value=True) for k in node.keywords)


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
    **dict.fromkeys(reading_queries.READERS, Calls._database_read),
}
