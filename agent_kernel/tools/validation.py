"""Validates arguments against JSON Schemas in bounded time. Loads jsonschema."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from itertools import islice
from typing import Any

from referencing import Registry

from agent_kernel.errors import InvalidArguments
from agent_kernel.tools.json_schema import Draft202012Validator, FormatChecker, ValidationError, extend
from agent_kernel.tools.patterns import matches

CPU_SECONDS = 1.0
FORMATS = ("date", "email", "ipv4", "ipv6", "uuid")
"""The formats that are checked, by Python itself. Others depend on optional packages, and some are slow."""

Keyword = Callable[[Any, Any, Any, Any], Iterator[ValidationError]]

_until: ContextVar[float] = ContextVar("_until")
_usual: dict[str, Keyword] = Draft202012Validator.VALIDATORS


def validator_of(parameters: Mapping[str, Any]) -> Draft202012Validator:
    """A validator for a schema that `patterns.fault_of` accepts."""
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


def _pattern(validator: Any, wanted: str, instance: Any, schema: Any) -> Iterator[ValidationError]:  # noqa: ARG001
    if isinstance(instance, str) and not matches(wanted, instance):
        yield ValidationError(f"{instance!r} does not match {wanted!r}")


def _pattern_properties(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:  # noqa: ARG001
    if isinstance(instance, dict):
        for pattern, described in wanted.items():
            for name, value in instance.items():
                if matches(pattern, name):
                    yield from validator.descend(value, described, path=name, schema_path=pattern)


def _additional_properties(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    patterns = schema.get("patternProperties", ())
    if isinstance(instance, dict) and patterns:
        instance = {k: v for k, v in instance.items() if not any(matches(pattern, k) for pattern in patterns)}
        schema = {key: value for key, value in schema.items() if key != "patternProperties"}
    yield from _usual["additionalProperties"](validator, wanted, instance, schema)


def _unique_items(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:  # noqa: ARG001
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


_Bounded: Any = extend(  # type: ignore[no-untyped-call]
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
