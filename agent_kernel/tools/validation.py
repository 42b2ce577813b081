"""Validates arguments against JSON Schemas in bounded time, and refuses schemas for which there is no bound.

Schemas come from notebooks and arguments from models, and they are compared on the server's event loop, which neither
may block. Python's own engine takes exponential time for some patterns; the one here is pydantic's (Rust's `regex`).

This loads jsonschema, which imports `rfc3987_syntax` where that is installed (jupyter-events asks for it) and builds a
grammar of IRIs for a second. Here the grammar is built when the first IRI is checked, by whomever.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from importlib.util import find_spec
from itertools import islice
from types import SimpleNamespace
from typing import Any

import pydantic_core
from pydantic_core import core_schema
from referencing import Registry

from agent_kernel.errors import InvalidArguments

_GRAMMAR = "rfc3987_syntax"


def _is_valid_syntax(rule: str, text: str) -> bool:
    from rfc3987_syntax import is_valid_syntax  # type: ignore[import-untyped]  # it has no types

    return bool(is_valid_syntax(rule, text))


@contextmanager
def _grammar_later() -> Iterator[None]:
    """Let jsonschema import a function that imports the grammar when it is called."""
    if _GRAMMAR in sys.modules or find_spec(_GRAMMAR) is None:
        yield
        return
    modules: dict[str, Any] = sys.modules
    modules[_GRAMMAR] = SimpleNamespace(is_valid_syntax=_is_valid_syntax)
    try:
        yield
    finally:
        del modules[_GRAMMAR]


with _grammar_later():
    from jsonschema import Draft202012Validator, FormatChecker
    from jsonschema.exceptions import SchemaError, ValidationError
    from jsonschema.validators import extend

CPU_SECONDS = 1.0
FORMATS = ("date", "email", "ipv4", "ipv6", "uuid")
"""The formats that are checked, by Python itself. Others depend on optional packages, and some are slow."""

_UNBOUNDED = "can't be checked in bounded time"
Keyword = Callable[[Any, Any, Any, Any], Iterator[ValidationError]]

_until: ContextVar[float] = ContextVar("_until")
_usual: dict[str, Keyword] = Draft202012Validator.VALIDATORS


def fault_of(schema: dict[str, Any]) -> str:
    """Why no arguments can be compared with this schema, or not in bounded time; "" if they can."""
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return f"are not a JSON Schema: {error.message[:200]}"
    pending: list[Any] = [schema]
    keys: set[str] = set()
    while pending:
        node = pending.pop()
        if isinstance(node, list):
            pending.extend(node)
        elif isinstance(node, Mapping):
            if node is not schema and isinstance(node.get("$schema"), str):
                return f"{_UNBOUNDED}: a part of them names a $schema of its own"
            for pattern in _patterns(node):
                try:
                    _engine(pattern)
                except pydantic_core.SchemaError:
                    why = f"the pattern {pattern[:100]!r} looks around, refers back, repeats too much or is none"
                    return f"{_UNBOUNDED}: {why}"
            keys |= node.keys()
            pending.extend(node.values())
    if {"patternProperties", "unevaluatedProperties"} <= keys:
        return f"{_UNBOUNDED}: patternProperties and unevaluatedProperties are used together"
    return ""


def _patterns(node: Mapping[str, Any]) -> Iterator[str]:
    own, by_pattern = node.get("pattern"), node.get("patternProperties")
    if isinstance(own, str):
        yield own
    if isinstance(by_pattern, Mapping):
        yield from by_pattern


@lru_cache(maxsize=512)
def _engine(pattern: str) -> pydantic_core.SchemaValidator:
    return pydantic_core.SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))


def _matches(pattern: str, text: str) -> bool:
    """Whether the pattern, of a schema without a fault, matches anywhere in the text."""
    try:
        _engine(pattern).validate_python(text)
    except pydantic_core.ValidationError:
        return False
    return True


def validator_of(parameters: Mapping[str, Any]) -> Draft202012Validator:
    """A validator for a schema that `fault_of` accepts."""
    # `$schema` would select jsonschema's usual validator of that name.
    schema = {key: value for key, value in parameters.items() if key != "$schema"}
    # With an empty registry no reference is fetched from the network.
    validator: Draft202012Validator = _Bounded(schema, registry=Registry(), format_checker=FormatChecker(FORMATS))
    return validator


def misfits(validator: Draft202012Validator, arguments: dict[str, Any], most: int) -> list[ValidationError]:
    """The first faults. Raises `InvalidArguments` if validation nests too deeply or takes too long."""
    reset = _until.set(time.thread_time() + CPU_SECONDS)
    try:
        return list(islice(validator.iter_errors(arguments), most))
    except RecursionError:
        raise InvalidArguments("The arguments are nested too deeply.") from None
    finally:
        _until.reset(reset)


def _pattern(validator: Any, wanted: str, instance: Any, schema: Any) -> Iterator[ValidationError]:  # noqa: ARG001 -- jsonschema's signature
    if isinstance(instance, str) and not _matches(wanted, instance):
        yield ValidationError(f"{instance!r} does not match {wanted!r}")


def _pattern_properties(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:  # noqa: ARG001 -- jsonschema's signature
    if isinstance(instance, dict):
        for pattern, described in wanted.items():
            for name, value in instance.items():
                if _matches(pattern, name):
                    yield from validator.descend(value, described, path=name, schema_path=pattern)


def _additional_properties(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    patterns = schema.get("patternProperties", ())
    if isinstance(instance, dict) and patterns:
        instance = {k: v for k, v in instance.items() if not any(_matches(pattern, k) for pattern in patterns)}
        schema = {key: value for key, value in schema.items() if key != "patternProperties"}
    yield from _usual["additionalProperties"](validator, wanted, instance, schema)


def _unique_items(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:  # noqa: ARG001 -- jsonschema's signature
    """`uniqueItems` in linear time; jsonschema's own may compare all pairs."""
    if not wanted or not isinstance(instance, list):
        return
    if len({json.dumps(item, sort_keys=True) for item in instance}) < len(instance):
        yield ValidationError("an item is in it twice")


def _timed(keyword: Keyword) -> Keyword:
    """`$ref` with a bound, because nested references can multiply the work of a short schema."""

    def follow(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        if time.thread_time() > _until.get():
            raise InvalidArguments("These arguments take too long to check against the tool's JSON Schema.")
        yield from keyword(validator, wanted, instance, schema)

    return follow


_Bounded: Any = extend(  # type: ignore[no-untyped-call]  # it has no types
    Draft202012Validator,
    {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "uniqueItems": _unique_items,
        "$ref": _timed(_usual["$ref"]),
        "$dynamicRef": _timed(_usual["$dynamicRef"]),
    },
)
