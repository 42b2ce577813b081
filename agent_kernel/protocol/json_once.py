"""Parses JSON of clients, strictly: what parsers differ about, or what can't be written again, is refused."""

import json
import math
from collections import Counter
from typing import Any, NoReturn


class RepeatedName(ValueError):
    """An object has the same name twice; the message gives the name."""


def loads_once(text: bytes) -> Any:
    """Parse JSON. Raises `ValueError` for invalid JSON, nesting that is too deep, a repeated name, NaN, a number that
    is too large for a float, and half of a surrogate pair, which can't be written as UTF-8."""
    try:
        value = json.loads(text, object_pairs_hook=unique, parse_float=_finite, parse_constant=_refuse)
        if not text.isascii() or b"\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    except UnicodeEncodeError:
        raise ValueError("it has half of a surrogate pair, which is no character") from None
    return value


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An `object_pairs_hook` for `json.loads`. Raises `RepeatedName`."""
    found = dict(pairs)
    if len(found) < len(pairs):
        name = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise RepeatedName(f"{name[:80]!r} is given twice")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")
