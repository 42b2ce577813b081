"""What variables hold, told without running any of the user's code: no `__repr__`, no property, no `__len__` of theirs.

Types from the standard library and from the usual data packages are described; of all else the type is named.
"""

import types
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

MAX_VARIABLES = 100
MAX_CHARACTERS = 20_000
PREVIEW_CHARACTERS = 200
_ITEMS = 6
_COLUMNS = 40
_ROWS = 3
_SKIPPED = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)
_NAMES_OF_IPYTHON = frozenset({"In", "Out", "exit", "quit", "open", "get_ipython"})


def user_variables(namespace: Mapping[str, Any], hidden: Mapping[str, Any]) -> dict[str, Any]:
    """The variables that a person would call theirs: no modules, functions, classes or private names."""
    return {
        name: value
        for name, value in list(namespace.items())
        if not name.startswith("_")
        and name not in _NAMES_OF_IPYTHON
        and not (name in hidden and hidden[name] is value)
        and not isinstance(value, _SKIPPED)
    }


def inspect_variables(
    namespace: Mapping[str, Any], hidden: Mapping[str, Any], names: Sequence[str] | None = None
) -> str:
    """A report of the named variables, or of all of the user's, at most 20,000 characters."""
    if names:
        known = dict(namespace)
        blocks = [f"{name}: {describe(known[name])}" if name in known else f"{name}: not defined" for name in names]
    else:
        mine = user_variables(namespace, hidden)
        blocks = [f"{name}: {describe(value)}" for name, value in islice(mine.items(), MAX_VARIABLES)]
        if len(mine) > MAX_VARIABLES:
            blocks.append(f"... and {len(mine) - MAX_VARIABLES} more: {', '.join(islice(mine, MAX_VARIABLES, None))}")
    report = "\n".join(blocks) or "No variables are defined yet."
    if len(report) > MAX_CHARACTERS:
        report = report[:MAX_CHARACTERS] + "\n[... cut: ask for fewer names ...]"
    return report


def summarize(value: Any) -> str:
    """One short line: type and shape, without a preview of the data."""
    return describe(value, preview=False).split("\n", 1)[0]


def describe(value: Any, preview: bool = True) -> str:
    for root in (base.__module__.partition(".")[0] for base in type(value).__mro__):
        describer = _DESCRIBERS.get(root)
        if describer is not None:
            try:
                return describer(value, preview)
            except Exception as error:  # noqa: BLE001 -- one odd variable must not hide the others
                return f"{type_name(value)} (could not be read: {type(error).__name__})"
    return _describe_plain(value, preview)


def type_name(value: Any) -> str:
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    return kind.__qualname__ if package == "builtins" else f"{package}.{kind.__name__}"


def safe_text(value: Any, depth: int = 2) -> str:
    """A bounded representation; values whose own code would have to run are named by type only."""
    kind = type(value)
    if kind is str or kind is bytes:
        cut = value[:PREVIEW_CHARACTERS]
        return repr(cut) + ("..." if len(value) > PREVIEW_CHARACTERS else "")
    if kind is int and value.bit_length() > 1_000:
        return f"<int of {value.bit_length()} bits>"
    if kind in (bool, int, float, complex, type(None)) or kind.__module__ in ("datetime", "decimal", "fractions"):
        return repr(value)
    if kind.__module__ == "numpy" and hasattr(kind, "item") and getattr(value, "shape", None) == ():
        return str(value)[:PREVIEW_CHARACTERS]
    if kind in (list, tuple, set, frozenset) and depth:
        inner = ", ".join(safe_text(item, depth - 1) for item in islice(value, _ITEMS))
        opened, closed = "[]" if kind is list else "()" if kind is tuple else "{}"
        return f"{opened}{inner}{', ...' if len(value) > _ITEMS else ''}{closed}"
    if kind is dict and depth:
        pairs = (f"{safe_text(key, 0)}: {safe_text(item, depth - 1)}" for key, item in islice(value.items(), _ITEMS))
        return "{" + ", ".join(pairs) + (", ...}" if len(value) > _ITEMS else "}")
    return f"<{type_name(value)}>"


def _describe_plain(value: Any, preview: bool) -> str:
    kind = type(value)
    head = type_name(value)
    if kind in (str, bytes, list, tuple, set, frozenset, dict):
        head += f" of length {len(value)}"
    if not preview:
        return head
    text = safe_text(value)
    return head if text == f"<{head}>" else f"{head} = {text[:1_000]}"


def _describe_array(value: Any, preview: bool) -> str:
    import numpy as np

    if not isinstance(value, np.ndarray):
        return f"{type_name(value)} = {safe_text(value)}" if preview else type_name(value)
    head = f"{type_name(value)} {_shape(value.shape)}, dtype {value.dtype}"
    if not preview or value.dtype.kind not in "biufcMmUS":
        return head
    return f"{head}, first values {', '.join(str(item)[:60] for item in value.flat[:_ITEMS])}"


def _describe_pandas(value: Any, preview: bool) -> str:
    import pandas as pd

    if isinstance(value, pd.DataFrame):
        columns = list(zip(value.columns[:_COLUMNS], value.dtypes.iloc[:_COLUMNS], strict=True))
        named = ", ".join(f"{_label(name)} ({kind})" for name, kind in columns)
        more = f", and {value.shape[1] - _COLUMNS} more" if value.shape[1] > _COLUMNS else ""
        head = f"{type_name(value)} {_shape(value.shape)}, columns: {named}{more}"
        if not preview:
            return head
        rows = (value.iloc[row, :_COLUMNS].tolist() for row in range(min(_ROWS, len(value))))
        return "\n".join([head, *("  " + " | ".join(safe_text(cell, 0) for cell in row) for row in rows)])
    if isinstance(value, pd.Series | pd.Index):
        head = f"{type_name(value)} of length {len(value)}, dtype {value.dtype}"
        first = value[:_ITEMS].tolist() if isinstance(value, pd.Index) else value.iloc[:_ITEMS].tolist()
        return f"{head}, first values {', '.join(safe_text(item, 0) for item in first)}" if preview else head
    return type_name(value)


def _describe_shaped(value: Any, _preview: bool) -> str:
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    head = type_name(value)
    if isinstance(shape, tuple):
        head += f" {_shape(shape)}"
    columns = getattr(value, "columns", None)
    if isinstance(columns, list):
        head += f", columns: {', '.join(map(_label, columns[:_COLUMNS]))}"
    return f"{head}, dtype {str(dtype)[:60]}" if dtype is not None else head


def _shape(shape: Sequence[Any]) -> str:
    return " x ".join(str(size) for size in shape) if len(shape) != 1 else f"of length {shape[0]}"


def _label(name: Any) -> str:
    return name[:60] if isinstance(name, str) else safe_text(name, 1)


_DESCRIBERS: dict[str, Callable[[Any, bool], str]] = {
    "numpy": _describe_array,
    "pandas": _describe_pandas,
    "polars": _describe_shaped,
    "torch": _describe_shaped,
    "scipy": _describe_shaped,
    "pyarrow": _describe_shaped,
    "xarray": _describe_shaped,
}
"""By the top package of a type or of one of its bases."""
