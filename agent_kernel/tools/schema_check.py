"""Checks declarations and their JSON Schemas before a tool is offered to a model."""

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from agent_kernel.errors import ToolDeclarationError
from agent_kernel.tools.declaration import ToolDeclaration

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
SAYS_TYPE = {"type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"}


def refuse(name: str, fault: str, advice: str) -> ToolDeclarationError:
    return ToolDeclarationError(f"The tool {name!r} can't be offered: {fault}. {advice}")


def check(declaration: ToolDeclaration) -> None:
    """Raise `ToolDeclarationError` unless the declaration has a usable name, a description and typed parameters."""
    name = declaration.name
    if not _NAME.fullmatch(name):
        raise refuse(name, "its name is not usable", "Use 1 to 64 letters, digits, _ and -; set it with name=.")
    if not declaration.description.strip():
        raise refuse(name, "it has no description", "Say in a docstring what it does; the model chooses by it.")
    schema = declaration.parameters
    if schema.get("type") != "object" or not isinstance(schema.get("properties", {}), Mapping):
        raise refuse(name, "its parameters are not a JSON Schema of type object", "Declare an object with properties.")
    for parameter, described in schema.get("properties", {}).items():
        if not isinstance(described, Mapping) or not SAYS_TYPE & described.keys():
            raise refuse(name, f"its parameter {parameter!r} has no type", "Give it one, such as str or int | str.")
    _check_references(name, schema)


def check_schema(name: str, schema: dict[str, Any]) -> None:
    """Refuse invalid JSON Schemas and those that can't be checked in bounded time. The first call loads jsonschema."""
    fault = _schema_fault(json.dumps(schema, sort_keys=True, default=repr))
    if fault:
        raise refuse(name, f"its parameters {fault}", "Correct them.")


@lru_cache(maxsize=512)
def _schema_fault(schema: str) -> str:
    """Cached, because runs offer much the same tools."""
    from agent_kernel.tools.validation import fault_of

    return fault_of(json.loads(schema))


def _check_references(name: str, schema: dict[str, Any]) -> None:
    """Refuse references that would have to be fetched from elsewhere."""
    pending: list[Any] = [schema]
    while pending:
        node = pending.pop()
        if isinstance(node, Mapping):
            reference = node.get("$ref")
            if isinstance(reference, str) and not reference.startswith("#"):
                raise refuse(name, f"its parameters refer to {reference[:100]!r}", "Use references within the schema.")
            pending.extend(node.values())
        elif isinstance(node, list):
            pending.extend(node)
