"""Parses JSON and refuses objects with a repeated name, because parsers differ in which value they take."""

import json
from collections import Counter
from typing import Any


class RepeatedName(ValueError):
    """An object has the same name twice; the message gives the name."""


def loads_once(text: str | bytes) -> Any:
    """Parse JSON. Raises `ValueError` for invalid JSON, nesting that is too deep, or a repeated name."""
    try:
        return json.loads(text, object_pairs_hook=unique)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An `object_pairs_hook` for `json.loads`. Raises `RepeatedName`."""
    found = dict(pairs)
    if len(found) < len(pairs):
        name = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise RepeatedName(f"{name[:80]!r} is given twice")
    return found
