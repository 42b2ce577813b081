"""Resolves what the names and expressions of a program may stand for, without running it.

A name may stand for everything that the program binds it to anywhere and, if nothing else is known, for the module of
that name, because a superfluous warning is better than a missing one. Each node is visited once, after its parts, so
the work is linear in the length of the code.
"""

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from agent_kernel.tools.review import effects, usual_names

_MEANINGS = 32
"""The most meanings of a name or expression. A name with more is reported."""
_TEXTS = 8
"""The most texts that a name may be. With more, it counts as unknown."""
_LONGEST_NAME = 120
_LONGEST_TEXT = 2_000
"""The longest text that is composed of others, in characters."""
_UNKNOWN = "{...}"

_PASSES_ON = frozenset({"sorted", "list", "tuple", "reversed", "iter", "next", "set", "str"})
_TEXT_WRAPPERS = frozenset({"text", "SQL", "dedent", "str", "Path", "PurePath"})
_NAMES_OF_NAMESPACES = frozenset({"globals", "locals"})
_IMPORTERS = frozenset({"__import__", "importlib.import_module", "importlib.__import__"})


class Text(NamedTuple):
    text: str
    whole: bool
    """Whether the text is complete, unlike `f"rm {name}"`."""


@dataclass(slots=True)
class _Known:
    """The known facts of a name."""

    bindings: int = 0
    meanings: dict[str, None] = field(default_factory=dict)
    texts: dict[Text, None] = field(default_factory=dict)
    unknown: bool = False
    """Whether it may be an unknown text."""
    value: ast.expr | None = None
    """The value that it is set to, if there is only one assignment."""
    since: tuple[int, int] | None = None
    """The position from which it is the program's own data or function."""
    made: tuple[int, int] | None = None
    """The position from which it has the value that the program set."""


class Names:
    def __init__(self, code: str, tree: ast.Module) -> None:
        self._lines = [line.encode() for line in code.split("\n")]
        self._at_once = {id(statement) for statement in tree.body}
        """Statements that always run exactly once. What others bind may have another value."""
        self._known: dict[str, _Known] = {}
        self._stars: dict[str, None] = {}
        self._any_star = False
        """Whether a star import may have bound any name."""
        self._meanings: dict[ast.AST, tuple[str, ...]] = {}
        self._texts: dict[ast.AST, tuple[Text, ...]] = {}
        self.unclear: dict[str, None] = {}
        """Names with too many meanings."""
        self._counting = True
        order = list(in_order(tree))
        for node in order:
            self._learn(node)
        # A second pass, for functions that use names bound after them.
        self._counting = False
        for node in order:
            self._learn(node)
        self.order = order

    def meanings(self, node: ast.AST | None) -> tuple[str, ...]:
        """The full names that an expression may stand for; none if irrelevant."""
        return self._meanings.get(node, ()) if node is not None else ()

    def texts(self, node: ast.AST | None) -> tuple[Text, ...]:
        """The texts that an expression may be; none if unknown."""
        return self._texts.get(node, ()) if node is not None else ()

    def is_bound(self, name: str) -> bool:
        return name in self._known

    def is_bound_once(self, name: str) -> bool:
        known = self._known.get(name)
        return known is None or known.bindings == 1

    def is_own(self, node: ast.Name) -> bool:
        """Whether the name's value at this point was made by the program itself."""
        known = self._known.get(node.id)
        if known is None or known.since is None or self._any_star:
            return False
        return known.since < (node.lineno, node.col_offset)

    def is_made_here(self, node: ast.Name) -> bool:
        """Whether the program has set a variable before."""
        known = self._known.get(node.id)
        return known is not None and known.made is not None and known.made < (node.lineno, node.col_offset)

    def value(self, node: ast.Name) -> ast.expr | None:
        known = self._known.get(node.id)
        return known.value if known is not None and known.bindings == 1 else None

    def code(self, node: ast.expr) -> str:
        """The code of an expression, cut if it is too long to be shown."""
        end = node.end_lineno or node.lineno
        if end - node.lineno > 10:
            return "(a long expression)"
        lines = self._lines[node.lineno - 1 : end]
        lines[-1] = lines[-1][: node.end_col_offset]
        lines[0] = lines[0][node.col_offset :]
        if sum(map(len, lines)) > 1_000:
            return "(a long expression)"
        return b" ".join(line.strip() for line in lines).decode(errors="replace")

    def shown(self, node: ast.expr | None) -> str:
        """A path for display: the text if it is known, else the code that makes it."""
        if node is None:
            return ""
        texts = self.texts(node)
        if len(texts) == 1 and (texts[0].whole or not isinstance(node, ast.Name)):
            return texts[0].text[:1_000] if texts[0].whole else self.code(node)
        return self.code(node)

    def _learn(self, node: ast.AST) -> None:
        if (learn := _LEARN.get(type(node))) is not None:
            learn(self, node)

    def _is(self, node: ast.AST, meanings: Iterable[str], texts: Iterable[Text] = ()) -> None:
        if found := tuple(dict.fromkeys(meanings))[:_MEANINGS]:
            self._meanings[node] = found
        if known := tuple(texts):
            self._texts[node] = known[:_TEXTS]

    # Expressions

    def _constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self._texts[node] = (Text(node.value, whole=True),)

    def _name(self, node: ast.Name) -> None:
        known = self._known.get(node.id)
        meanings = list(known.meanings) if known is not None else []
        if known is None or not self.is_own(node):
            meanings.extend(self._unbound(node.id, is_bound=known is not None))
        self._is(node, meanings, known.texts if known is not None and not known.unknown else ())

    def _unbound(self, name: str, *, is_bound: bool) -> Iterator[str]:
        """The meanings of a name that the program does not bind."""
        yield from (full for star in self._stars if (full := same(f"{star}.{name}")) in usual_names.NAMES)
        meant = name if is_bound else usual_names.CONVENTIONS.get(name, name)
        if meant.partition(".")[0] in usual_names.ROOTS:
            yield same(meant)

    def _attribute(self, node: ast.Attribute) -> None:
        if node.attr in usual_names.LOOKED_THROUGH:
            self._is(node, [same(node.attr)])
            return
        meanings = [full for meaning in self.meanings(node.value) if (full := _attribute_of(meaning, node.attr))]
        texts = [Text("python", whole=False)] if meanings == ["sys.executable"] else []
        self._is(node, meanings, texts)

    def _subscript(self, node: ast.Subscript) -> None:
        keys = self.texts(node.slice)
        found: list[str] = []
        for meaning in self.meanings(node.value):
            found.extend(self._item(meaning, keys))
        self._is(node, found)

    def _item(self, meaning: str, keys: tuple[Text, ...]) -> Iterator[str]:
        if meaning in ("globals()", "sys.modules", "builtins"):
            for key in keys:
                if meaning == "globals()" and key.text in self._known:
                    yield from self._known[key.text].meanings
                yield same(key.text)
        elif meaning.endswith(".__dict__"):
            yield from (_attribute_of(meaning.removesuffix(".__dict__"), key.text) for key in keys)
        elif not meaning.startswith("os.environ"):
            yield meaning

    def _call(self, node: ast.Call) -> None:
        found: list[str] = []
        for meaning in self.meanings(node.func):
            found.extend(self._result(meaning, node))
        self._is(node, found, self._result_texts(node))

    def _result(self, function: str, node: ast.Call) -> Iterator[str]:
        """The meanings of the result of a call."""
        first = node.args[0] if node.args else None
        if function in _IMPORTERS and self.texts(first):
            whole = function == "importlib.import_module"
            yield from (same(text.text if whole else text.text.partition(".")[0]) for text in self.texts(first))
        elif function in _NAMES_OF_NAMESPACES or (function == "vars" and first is None):
            yield "globals()"
        elif function.endswith((".get", ".__getitem__")) and first is not None:
            yield from self._item(function.rpartition(".")[0], self.texts(first))
        elif function in _PASSES_ON or function in ("getattr", "vars"):
            yield from self._passed_through(function, node)
        elif function.startswith("pathlib.Path"):
            if function.rpartition(".")[2].removesuffix("()") in effects.PATH_GIVES:
                yield "pathlib.Path()"
        elif function.count("()") < 2 and len(function) < _LONGEST_NAME:
            yield same(f"{function}()")

    def _passed_through(self, function: str, node: ast.Call) -> Iterator[str]:
        for meaning in self.meanings(node.args[0] if node.args else None):
            if function == "vars":
                yield f"{meaning}.__dict__"
            elif function != "getattr":
                yield meaning
            elif len(node.args) > 1:
                yield from (_attribute_of(meaning, text.text) for text in self.texts(node.args[1]) if text.whole)

    def _result_texts(self, node: ast.Call) -> tuple[Text, ...]:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in _TEXT_WRAPPERS and len(node.args) == 1:
            return self.texts(node.args[0])
        if not isinstance(node.func, ast.Attribute):
            return ()
        own = self.texts(node.func.value)
        if name == "format":
            return tuple(Text(text.text, whole=False) for text in own)
        if name == "join" and own and len(node.args) == 1 and isinstance(node.args[0], ast.List | ast.Tuple):
            items = [self.texts(item)[0] for item in node.args[0].elts if self.texts(item)]
            if len(items) == len(node.args[0].elts) and sum(len(item.text) for item in items) < _LONGEST_TEXT:
                return (Text(own[0].text.join(item.text for item in items), all(item.whole for item in items)),)
        return ()

    def _binary(self, node: ast.BinOp) -> None:
        left, right = self.texts(node.left), self.texts(node.right)
        if isinstance(node.op, ast.Div):
            self._is(
                node, (m for side in (node.left, node.right) for m in self.meanings(side) if m == "pathlib.Path()")
            )
        elif isinstance(node.op, ast.Mod):
            self._is(node, (), (Text(text.text, whole=False) for text in left))
        elif isinstance(node.op, ast.Add) and (left or right):
            unknown = (Text(_UNKNOWN, whole=False),)
            both = [_joined(one, other) for one in (left or unknown)[:2] for other in (right or unknown)[:2]]
            self._is(node, (), both)

    def _f_string(self, node: ast.JoinedStr) -> None:
        whole = Text("", whole=True)
        for part in node.values:
            value = part.value if isinstance(part, ast.FormattedValue) else part
            texts = self.texts(value) if isinstance(value, ast.expr) else ()
            plain = not isinstance(part, ast.FormattedValue) or (part.format_spec is None and part.conversion == -1)
            if len(texts) == 1 and plain:
                whole = _joined(whole, texts[0])
            else:
                shown = f"{{{self.code(value)}}}" if isinstance(value, ast.expr) else _UNKNOWN
                whole = _joined(whole, Text(shown, whole=False))
        self._texts[node] = (whole,)

    def _either(self, node: ast.IfExp | ast.BoolOp | ast.List | ast.Tuple | ast.Set | ast.Dict) -> None:
        """The union of several meanings, for a choice or for the items of a collection."""
        match node:
            case ast.IfExp():
                parts: list[ast.expr] = [node.body, node.orelse]
            case ast.Dict() | ast.BoolOp():
                parts = node.values
            case _:
                parts = node.elts
        self._is(node, (meaning for part in parts for meaning in self.meanings(part)))
        if isinstance(node, ast.IfExp | ast.BoolOp) and all(self.texts(part) for part in parts):
            self._texts[node] = tuple(text for part in parts for text in self.texts(part))[:_TEXTS]

    def _passed_on(self, node: ast.Await | ast.Starred | ast.FormattedValue) -> None:
        self._is(node, self.meanings(node.value), self.texts(node.value))

    # Bindings

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            self._bind(name, (alias.name if alias.asname else name,), (), node, since=node)

    def _import_from(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name == "*":
                self._any_star = True
                if (node.module or "") in usual_names.NAMES:
                    self._stars[node.module or ""] = None
            else:
                name = alias.asname or alias.name
                self._bind(name, (f"{node.module or ''}.{alias.name}",), (), node, since=node)

    def _assign(self, node: ast.Assign | ast.AnnAssign | ast.NamedExpr) -> None:
        if node.value is None:
            return
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            self._bind_target(target, node.value, node)
        if isinstance(node, ast.NamedExpr):
            self._passed_on(node)  # type: ignore[arg-type]

    def _bind_target(self, target: ast.expr, value: ast.expr, statement: ast.AST) -> None:
        if isinstance(target, ast.Name):
            since = statement if _is_plain(value) else None
            self._bind(target.id, self.meanings(value), self.texts(value), statement, since=since)
            self._known[target.id].value = value
        elif isinstance(target, ast.Tuple | ast.List):
            values = value.elts if isinstance(value, ast.Tuple | ast.List) else []
            for position, item in enumerate(target.elts):
                matching = values[position] if len(values) == len(target.elts) else None
                if isinstance(item, ast.Name):
                    known = matching if matching is not None else value
                    texts = self.texts(matching)
                    self._bind(item.id, self.meanings(known), texts, statement)

    def _loop(self, node: ast.For | ast.AsyncFor | ast.comprehension) -> None:
        self._bind_names(node.target, self.meanings(node.iter), node)

    def _with_item(self, node: ast.withitem) -> None:
        if node.optional_vars is not None:
            self._bind_names(node.optional_vars, self.meanings(node.context_expr), node)

    def _bind_names(self, target: ast.expr, meanings: tuple[str, ...], statement: ast.AST) -> None:
        for item in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
            if isinstance(item, ast.Name):
                self._bind(item.id, meanings, (), statement)

    def _changed(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self._bind(node.target.id, (), (), node)

    def _defined(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        self._bind(node.name, (), (), node, since=node)

    def _parameters(self, node: ast.arguments) -> None:
        plain = [*node.posonlyargs, *node.args]
        defaults: list[ast.expr | None] = [*[None] * (len(plain) - len(node.defaults)), *node.defaults]
        for argument, default in zip([*plain, *node.kwonlyargs], [*defaults, *node.kw_defaults], strict=True):
            self._bind(argument.arg, self.meanings(default), (), node)
        for rest in (node.vararg, node.kwarg):
            if rest is not None:
                self._bind(rest.arg, (), (), node)

    def _handler(self, node: ast.ExceptHandler) -> None:
        if node.name is not None:
            self._bind(node.name, (), (), node)

    def _bind(
        self,
        name: str,
        meanings: Iterable[str],
        texts: Iterable[Text],
        statement: ast.AST,
        since: ast.AST | None = None,
    ) -> None:
        known = self._known.setdefault(name, _Known())
        known.bindings += self._counting
        for meaning in meanings:
            if (full := same(meaning)).partition(".")[0].removesuffix("()") in usual_names.ROOTS:
                if len(known.meanings) < _MEANINGS or full in known.meanings:
                    known.meanings[full] = None
                elif full in usual_names.NAMES:
                    self.unclear[name] = None
        before = len(known.texts)
        known.texts.update(dict.fromkeys(texts))
        known.unknown |= len(known.texts) > _TEXTS or (before == len(known.texts) and not any(True for _ in texts))
        if self._counting and id(statement) in self._at_once:
            end = (statement.end_lineno or 0, statement.end_col_offset or 0)  # type: ignore[attr-defined]
            known.made = known.made or end
            if since is not None:
                known.since = known.since or end


def in_order(tree: ast.Module) -> Iterator[ast.AST]:
    """All nodes, each after its parts, except that a statement with a body precedes it, as Python binds its name."""
    stack: list[tuple[ast.AST, bool]] = [(tree, False)]
    while stack:
        node, is_ready = stack.pop()
        if is_ready:
            yield node
            continue
        early, late = _parts(node)
        stack.extend((part, False) for part in reversed(late))
        stack.append((node, True))
        stack.extend((part, False) for part in reversed(early))


def _parts(node: ast.AST) -> tuple[list[ast.AST], list[ast.AST]]:
    parts = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
        return [*node.generators, *(part for part in parts if not isinstance(part, ast.comprehension))], []
    if not hasattr(node, "body") or isinstance(node, ast.IfExp | ast.Lambda):
        return parts, []
    late: list[ast.AST] = [part for part in parts if isinstance(part, ast.stmt | ast.ExceptHandler | ast.match_case)]
    return [part for part in parts if not isinstance(part, ast.stmt | ast.ExceptHandler | ast.match_case)], late


def same(name: str) -> str:
    """The name that the tables use for an alias."""
    root, dot, rest = name.partition(".")
    if root in usual_names.SAME:
        name = f"{usual_names.SAME[root]}{dot}{rest}"
    if name.startswith("builtins."):
        name = name.removeprefix("builtins.")
    return usual_names.SAME.get(name, name)


def _attribute_of(meaning: str, attribute: str) -> str:
    """The full name, or `""` if it is irrelevant."""
    if attribute in usual_names.LOOKED_THROUGH:
        return same(attribute)
    if attribute == "__call__":
        return meaning
    if meaning.startswith("pathlib.Path()"):
        # Paths are known by the texts in them.
        return "pathlib.Path()" if attribute in ("parent", "parents") else f"pathlib.Path().{attribute}"
    return same(f"{meaning}.{attribute}") if len(meaning) < _LONGEST_NAME else ""


def _joined(one: Text, other: Text) -> Text:
    text = one.text + other.text if len(one.text) + len(other.text) <= _LONGEST_TEXT else one.text[:_LONGEST_TEXT]
    return Text(text, one.whole and other.whole and len(text) == len(one.text) + len(other.text))


def _is_plain(value: ast.expr) -> bool:
    """Whether an expression is data, and so neither a module nor a function."""
    return isinstance(
        value,
        ast.Constant
        | ast.List
        | ast.Dict
        | ast.Set
        | ast.Tuple
        | ast.JoinedStr
        | ast.ListComp
        | ast.DictComp
        | ast.SetComp,
    )


_LEARN: dict[type[ast.AST], Callable[..., None]] = {
    ast.Constant: Names._constant,
    ast.Name: Names._name,
    ast.Attribute: Names._attribute,
    ast.Subscript: Names._subscript,
    ast.Call: Names._call,
    ast.BinOp: Names._binary,
    ast.JoinedStr: Names._f_string,
    **dict.fromkeys((ast.IfExp, ast.BoolOp, ast.List, ast.Tuple, ast.Set, ast.Dict), Names._either),
    **dict.fromkeys((ast.Await, ast.Starred, ast.FormattedValue), Names._passed_on),
    ast.Import: Names._import,
    ast.ImportFrom: Names._import_from,
    **dict.fromkeys((ast.Assign, ast.AnnAssign, ast.NamedExpr), Names._assign),
    **dict.fromkeys((ast.For, ast.AsyncFor, ast.comprehension), Names._loop),
    ast.withitem: Names._with_item,
    ast.AugAssign: Names._changed,
    **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef), Names._defined),
    ast.arguments: Names._parameters,
    ast.ExceptHandler: Names._handler,
}
