"""JSON in which no object has a name twice: readers differ in which of the two they take."""

import json
from collections import Counter
from typing import Any


class RepeatedName(ValueError):
    """The message names it."""


def loads_once(text: str | bytes) -> Any:
    """JSON as clients send it. Raises `ValueError` for what is no JSON, is nested too deep, or repeats a name."""
    try:
        return json.loads(text, object_pairs_hook=unique)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An `object_pairs_hook`. Raises `RepeatedName`."""
    found = dict(pairs)
    if len(found) < len(pairs):
        name = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise RepeatedName(f"{name[:80]!r} is given twice")
    return found
