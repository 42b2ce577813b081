"""Matches the regular expressions of JSON Schemas in linear time.

Schemas come from notebooks and arguments from models, and they are compared on the server's event loop, which neither
may block. Python's own engine takes exponential time for some patterns; this one is pydantic's (Rust's `regex`).
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from pydantic_core import SchemaError, SchemaValidator, ValidationError, core_schema


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern matches anywhere in the text. Raises `SchemaError` for a pattern that `fault_of` refuses."""
    try:
        _engine(pattern).validate_python(text)
    except ValidationError:
        return False
    return True


def fault_of(schema: Mapping[str, Any]) -> str:
    """Why texts can't be compared with this schema in bounded time; "" if they can."""
    pending: list[Any] = [schema]
    keys: set[str] = set()
    while pending:
        node = pending.pop()
        if isinstance(node, list):
            pending.extend(node)
        elif isinstance(node, Mapping):
            if node is not schema and isinstance(node.get("$schema"), str):
                return "a part of them names a $schema of its own"
            for pattern in _patterns(node):
                try:
                    _engine(pattern)
                except SchemaError:
                    return f"the pattern {pattern[:100]!r} looks around, refers back, repeats too much or is none"
            keys |= node.keys()
            pending.extend(node.values())
    if {"patternProperties", "unevaluatedProperties"} <= keys:
        return "patternProperties and unevaluatedProperties are used together"
    return ""


def _patterns(node: Mapping[str, Any]) -> Iterator[str]:
    own, by_pattern = node.get("pattern"), node.get("patternProperties")
    if isinstance(own, str):
        yield own
    if isinstance(by_pattern, Mapping):
        yield from by_pattern


@lru_cache(maxsize=512)
def _engine(pattern: str) -> SchemaValidator:
    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
