"""JSON as clients send it. A name that is given twice is refused: readers differ in which of the two they take."""

import json
from collections import Counter
from typing import Any


def loads_once(text: str | bytes) -> Any:
    """Raises `ValueError` for what is no JSON, is nested too deep, or gives a name twice in one object."""
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        name = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"{name[:80]!r} is given twice")
    return found
