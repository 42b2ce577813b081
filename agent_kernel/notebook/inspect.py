"""Describes the user's variables without running any of the user's code: no `__repr__`, property or `__len__`.

Values whose types belong to the standard library or to the usual data packages are described; of others only the type
is named. Types are compared by identity only: attributes of a subclass may run code, and so may a metaclass whose class
is compared, hashed or asked for its name.
"""

import datetime
import decimal
import fractions
import sys
import time
import types
import zoneinfo
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

MAX_VARIABLES = 100
MAX_CHARACTERS = 20_000
MAX_SECONDS = 1.0
"""After this time only the types of the remaining variables are named."""
PREVIEW_CHARACTERS = 200
_NAME_CHARACTERS = 100
_ITEMS = 6
_COLUMNS = 40
_ROWS = 3
_BITS = 1_000
_SKIPPED = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)
_NAMES_OF_IPYTHON = frozenset({"In", "Out", "exit", "quit", "open", "get_ipython"})

_module_of = type.__dict__["__module__"].__get__
_name_of = type.__dict__["__name__"].__get__
_qualname_of = type.__dict__["__qualname__"].__get__


def user_variables(namespace: Mapping[str, Any], hidden: Mapping[str, Any]) -> dict[str, Any]:
    """The user's own variables: no modules, functions, classes or private names, and none of IPython's."""
    return {
        name: value
        for name, value in list(namespace.items())
        if type(name) is str
        and not name.startswith("_")
        and name not in _NAMES_OF_IPYTHON
        and not (name in hidden and hidden[name] is value)
        and not issubclass(type(value), _SKIPPED)  # `isinstance` would ask the value for its `__class__`
    }


def inspect_variables(
    namespace: Mapping[str, Any], hidden: Mapping[str, Any], names: Sequence[str] | None = None
) -> str:
    """A description of the named variables, or of all of the user's, of at most 20,000 characters."""
    describer = Describer()
    if names:
        known = dict(namespace)
        blocks = [
            f"{name}: {describer.describe(known[name])}" if name in known else f"{name}: not defined" for name in names
        ]
    else:
        mine = user_variables(namespace, hidden)
        blocks = [f"{name}: {describer.describe(value)}" for name, value in islice(mine.items(), MAX_VARIABLES)]
        if len(mine) > MAX_VARIABLES:
            blocks.append(f"... and {len(mine) - MAX_VARIABLES} more: {', '.join(islice(mine, MAX_VARIABLES, None))}")
    report = "\n".join(blocks) or "No variables are defined yet."
    if len(report) > MAX_CHARACTERS:
        report = report[:MAX_CHARACTERS] + "\n[... cut: ask for fewer names ...]"
    return report


class Describer:
    """Describes values until its time is up; after that it only names their types."""

    def __init__(self) -> None:
        self._until = time.monotonic() + MAX_SECONDS

    def describe(self, value: Any, *, preview: bool = True) -> str:
        return type_name(value) if time.monotonic() > self._until else describe(value, preview)

    def short(self, value: Any) -> str:
        """One line with type and shape, without a preview of the data."""
        return self.describe(value, preview=False).split("\n", 1)[0]


def describe(value: Any, preview: bool = True) -> str:
    describer = _library_describer(type(value)) or _describe_plain
    try:
        return describer(value, preview)
    except Exception as error:  # noqa: BLE001 -- one odd variable must not hide the others
        return f"{type_name(value)} (could not be read: {type_name(error)})"


def type_name(value: Any) -> str:
    kind = type(value)
    module = _module_of(kind)
    package = module.partition(".")[0] if type(module) is str else ""
    name = _qualname_of(kind) if package == "builtins" or not package else f"{package}.{_name_of(kind)}"
    return str(name)[:_NAME_CHARACTERS]


def safe_text(value: Any, depth: int = 2) -> str:
    """A representation of bounded length; of values that would need their own code, only the type."""
    kind = type(value)
    if kind is str or kind is bytes:
        cut = value[:PREVIEW_CHARACTERS]
        return repr(cut) + ("..." if len(value) > PREVIEW_CHARACTERS else "")
    if kind is int and value.bit_length() > _BITS:
        return f"<int of {value.bit_length()} bits>"
    if _is_one_of(kind, _PLAIN) or (_is_one_of(kind, _EXACT) and _is_short(value)):
        return repr(value)[:PREVIEW_CHARACTERS]
    if _is_one_of(kind, _numpy_scalars()):
        return str(value)[:PREVIEW_CHARACTERS]
    if _is_one_of(kind, _SEQUENCES) and depth:
        inner = ", ".join(safe_text(item, depth - 1) for item in islice(value, _ITEMS))
        opened, closed = "[]" if kind is list else "()" if kind is tuple else "{}"
        return f"{opened}{inner}{', ...' if len(value) > _ITEMS else ''}{closed}"
    if kind is dict and depth:
        pairs = (f"{safe_text(key, 0)}: {safe_text(item, depth - 1)}" for key, item in islice(value.items(), _ITEMS))
        return "{" + ", ".join(pairs) + (", ...}" if len(value) > _ITEMS else "}")
    return f"<{type_name(value)}>"


_PLAIN = (bool, int, float, complex, type(None), datetime.date, datetime.timedelta, datetime.timezone, decimal.Decimal)
_EXACT = (datetime.datetime, datetime.time, fractions.Fraction)
_SEQUENCES = (list, tuple, set, frozenset)


def _is_one_of(kind: type, kinds: Sequence[type]) -> bool:
    """Compares by identity: `in` would ask a metaclass whether its class equals another."""
    return any(kind is one for one in kinds)


def _is_short(value: Any) -> bool:
    """Whether the representation of a value of `_EXACT` is short and runs no code of other types."""
    if type(value) is fractions.Fraction:
        parts = (value.numerator, value.denominator)
        return all(type(part) is int and part.bit_length() <= _BITS for part in parts)
    zone = value.tzinfo
    return zone is None or _is_one_of(type(zone), (datetime.timezone, zoneinfo.ZoneInfo))


def _describe_plain(value: Any, preview: bool) -> str:
    kind = type(value)
    head = type_name(value)
    if _is_one_of(kind, (str, bytes, dict, *_SEQUENCES)):
        head += f" of length {len(value)}"
    if not preview:
        return head
    text = safe_text(value)
    return head if text == f"<{head}>" else f"{head} = {text[:1_000]}"


def _describe_array(value: Any, preview: bool) -> str:
    head = f"{type_name(value)} {_shape(value.shape)}, dtype {_dtype(value.dtype)}"
    if not preview or value.dtype.kind not in "biufcMmUS":
        return head
    return f"{head}, first values {', '.join(str(item)[:60] for item in value.flat[:_ITEMS])}"


def _describe_scalar(value: Any, preview: bool) -> str:
    return f"{type_name(value)} = {safe_text(value)}" if preview else type_name(value)


def _describe_frame(value: Any, preview: bool) -> str:
    kinds = list(value.dtypes.iloc[:_COLUMNS])
    columns = zip(value.columns[:_COLUMNS], kinds, strict=True)
    named = ", ".join(f"{_label(name)} ({_dtype(kind)})" for name, kind in columns)
    more = f", and {value.shape[1] - _COLUMNS} more" if value.shape[1] > _COLUMNS else ""
    head = f"{type_name(value)} {_shape(value.shape)}, columns: {named}{more}"
    if not preview or not all(map(_is_known_dtype, kinds)):
        return head
    rows = (value.iloc[row, :_COLUMNS].tolist() for row in range(min(_ROWS, len(value))))
    return "\n".join([head, *("  " + " | ".join(safe_text(cell, 0) for cell in row) for row in rows)])


def _describe_column(value: Any, preview: bool) -> str:
    head = f"{type_name(value)} of length {len(value)}, dtype {_dtype(value.dtype)}"
    if not preview or not _is_known_dtype(value.dtype):
        return head
    first = (value.iloc[:_ITEMS] if hasattr(value, "iloc") else value[:_ITEMS]).tolist()
    return f"{head}, first values {', '.join(safe_text(item, 0) for item in first)}"


def _describe_shaped(value: Any, _preview: bool) -> str:
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    head = type_name(value)
    if isinstance(shape, tuple):
        head += f" {_shape(shape)}"
    columns = getattr(value, "column_names", None) or getattr(value, "columns", None)
    if isinstance(columns, list):
        head += f", columns: {', '.join(map(_label, columns[:_COLUMNS]))}"
    return f"{head}, dtype {str(dtype)[:60]}" if dtype is not None else head


def _shape(shape: Sequence[Any]) -> str:
    return " x ".join(str(size) for size in shape) if len(shape) != 1 else f"of length {shape[0]}"


def _label(name: Any) -> str:
    return name[:60] if type(name) is str else safe_text(name, 1)


def _dtype(dtype: Any) -> str:
    return str(dtype)[:_NAME_CHARACTERS] if _is_known_dtype(dtype) else type_name(dtype)


def _is_known_dtype(dtype: Any) -> bool:
    """Whether a dtype is numpy's or pandas' own. Reading a column of any other dtype may run the user's code."""
    kind = type(dtype)
    numpy, pandas = _contents("numpy"), _contents("pandas")
    of_numpy = numpy.get("dtype")
    if of_numpy is not None and issubclass(kind, of_numpy):  # numpy's dtype can't be subclassed by others
        return True
    return pandas.get(_name_of(kind)) is kind


def _contents(module: str) -> Mapping[str, Any]:
    """The contents of a module, if it is imported already."""
    found = sys.modules.get(module)
    return vars(found) if type(found) is types.ModuleType else {}


def _numpy_scalars() -> Sequence[type]:
    contents = _contents("numpy")
    return [contents[name] for name in _SCALARS if name in contents]


def _library_describer(kind: type) -> Callable[[Any, bool], str] | None:
    """The function that describes values of exactly this type, if an imported data package has the type."""
    for module, names, describer in _LIBRARIES:
        contents = _contents(module)
        if contents and any(contents.get(name) is kind for name in names):
            return describer
    return None


_SCALARS = (
    *("bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "longlong", "ulonglong"),
    *("float16", "float32", "float64", "longdouble", "complex64", "complex128", "clongdouble"),
    *("str_", "bytes_", "datetime64", "timedelta64"),
)
_SPARSE = tuple(
    f"{form}_{kind}" for form in ("bsr", "coo", "csc", "csr", "dia", "dok", "lil") for kind in ("array", "matrix")
)
_INDEXES = ("Index", "RangeIndex", "MultiIndex", "DatetimeIndex", "TimedeltaIndex", "PeriodIndex", "CategoricalIndex")
_LIBRARIES: tuple[tuple[str, tuple[str, ...], Callable[[Any, bool], str]], ...] = (
    ("numpy", ("ndarray", "memmap", "matrix"), _describe_array),
    ("numpy", _SCALARS, _describe_scalar),
    ("pandas", ("DataFrame",), _describe_frame),
    ("geopandas", ("GeoDataFrame",), _describe_frame),
    ("pandas", ("Series", "IntervalIndex", *_INDEXES), _describe_column),
    ("polars", ("DataFrame", "Series"), _describe_shaped),
    ("torch", ("Tensor",), _describe_shaped),
    ("scipy.sparse", _SPARSE, _describe_shaped),
    ("pyarrow", ("Table", "RecordBatch", "ChunkedArray"), _describe_shaped),
    ("xarray", ("DataArray", "Dataset"), _describe_shaped),
)
"""Types of data packages: their module, their names in it, and the function that describes their values."""
