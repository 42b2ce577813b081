"""Says in few words what a value is, without running any of the user's code: no `__repr__`, property or `__len__`.

Types are compared by identity only: attributes of a subclass may run code, and so may a metaclass whose class is
compared, hashed or asked for its name.
"""

import datetime
import decimal
import fractions
import sys
import types
import zoneinfo
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

PREVIEW_CHARACTERS = 200
NAME_CHARACTERS = 100
ITEMS = 6
_BITS = 1_000

module_of = type.__dict__["__module__"].__get__
name_of = type.__dict__["__name__"].__get__
_qualname_of = type.__dict__["__qualname__"].__get__


def type_name(value: Any) -> str:
    kind = type(value)
    module = module_of(kind)
    package = module.partition(".")[0] if type(module) is str else ""
    name = _qualname_of(kind) if package == "builtins" or not package else f"{package}.{name_of(kind)}"
    return str(name)[:NAME_CHARACTERS]


def safe_text(value: Any, depth: int = 2) -> str:
    """A representation of bounded length; of values that would need their own code, only the type."""
    kind = type(value)
    if kind is str or kind is bytes:
        cut = value[:PREVIEW_CHARACTERS]
        return repr(cut) + ("..." if len(value) > PREVIEW_CHARACTERS else "")
    if kind is int and value.bit_length() > _BITS:
        return f"<int of {value.bit_length()} bits>"
    if is_one_of(kind, _PLAIN) or (is_one_of(kind, _EXACT) and _is_short(value)):
        return repr(value)[:PREVIEW_CHARACTERS]
    if is_one_of(kind, numpy_scalars()):
        return str(value)[:PREVIEW_CHARACTERS]
    if is_one_of(kind, SEQUENCES) and depth:
        inner = ", ".join(safe_text(item, depth - 1) for item in islice(value, ITEMS))
        opened, closed = "[]" if kind is list else "()" if kind is tuple else "{}"
        return f"{opened}{inner}{', ...' if len(value) > ITEMS else ''}{closed}"
    if kind is dict and depth:
        pairs = (f"{safe_text(key, 0)}: {safe_text(item, depth - 1)}" for key, item in islice(value.items(), ITEMS))
        return "{" + ", ".join(pairs) + (", ...}" if len(value) > ITEMS else "}")
    return f"<{type_name(value)}>"


_PLAIN = (bool, int, float, complex, type(None), datetime.date, datetime.timedelta, datetime.timezone, decimal.Decimal)
_EXACT = (datetime.datetime, datetime.time, fractions.Fraction)
SEQUENCES = (list, tuple, set, frozenset)


def is_one_of(kind: type, kinds: Sequence[type]) -> bool:
    """Compares by identity: `in` would ask a metaclass whether its class equals another."""
    return any(kind is one for one in kinds)


def _is_short(value: Any) -> bool:
    """Whether the representation of a value of `_EXACT` is short and runs no code of other types."""
    if type(value) is fractions.Fraction:
        parts = (value.numerator, value.denominator)
        return all(type(part) is int and part.bit_length() <= _BITS for part in parts)
    zone = value.tzinfo
    return zone is None or is_one_of(type(zone), (datetime.timezone, zoneinfo.ZoneInfo))


def contents(module: str) -> Mapping[str, Any]:
    """The contents of a module, if it is imported already."""
    found = sys.modules.get(module)
    return vars(found) if type(found) is types.ModuleType else {}


def numpy_scalars() -> Sequence[type]:
    numpy = contents("numpy")
    return [numpy[name] for name in SCALARS if name in numpy]


SCALARS = (
    *("bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "longlong", "ulonglong"),
    *("float16", "float32", "float64", "longdouble", "complex64", "complex128", "clongdouble"),
    *("str_", "bytes_", "datetime64", "timedelta64"),
)
