"""Makes JSON Schemas from function signatures, and checks schemas before a tool is offered to a model."""

import inspect
import json
import re
import typing
import warnings
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import SchemaError

from agent_kernel.errors import ToolDeclarationError
from agent_kernel.tools.declaration import ToolDeclaration
from agent_kernel.tools.patterns import fault_of

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SAYS_TYPE = {"type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"}


class _Plain(GenerateJsonSchema):
    """Omits titles, which only repeat names, and defaults that are not JSON."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False


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
        if not isinstance(described, Mapping) or not _SAYS_TYPE & described.keys():
            raise refuse(name, f"its parameter {parameter!r} has no type", "Give it one, such as str or int | str.")
    _check_references(name, schema)


def check_schema(name: str, schema: dict[str, Any]) -> None:
    """Refuse invalid JSON Schemas and those that can't be checked in bounded time. The first call loads jsonschema,
    which can take a second."""
    fault = _schema_fault(json.dumps(schema, sort_keys=True, default=repr))
    if fault:
        raise refuse(name, f"its parameters {fault}", "Correct them.")


@lru_cache(maxsize=512)
def _schema_fault(schema: str) -> str:
    """Cached, because runs offer much the same tools and checking ten of them takes 10 ms."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(json.loads(schema))
    except SchemaError as error:
        return f"are not a JSON Schema: {error.message[:200]}"
    slow = fault_of(json.loads(schema))
    return f"can't be checked in bounded time: {slow}" if slow else ""


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


def arguments_model(function: Callable[..., Any], name: str, described: Mapping[str, str]) -> type[BaseModel]:
    """A model whose aliases are the function's parameters. Its own field names (`p0`, `p1`) clash with nothing."""
    hints = _hints(function, name)
    fields: dict[str, Any] = {}
    for position, parameter in enumerate(inspect.signature(function).parameters.values()):
        _check_kind(parameter, name)
        if parameter.name not in hints:
            raise refuse(name, f"its parameter {parameter.name!r} has no type hint", "Write one, such as `: str`.")
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[f"p{position}"] = (
            hints[parameter.name],
            _field(default, parameter.name, hints[parameter.name], described),
        )
    try:
        return create_model("Arguments", __config__=ConfigDict(extra="forbid", defer_build=False), **fields)
    except (PydanticSchemaGenerationError, PydanticUserError, SchemaError, TypeError) as error:
        lines = str(error).splitlines()
        why = lines[-1 if isinstance(error, SchemaError) else 0][:300]
        raise refuse(
            name, f"a type hint can't be read as JSON ({why})", "Take JSON types, or a variable's name as a str."
        ) from None


def parameters_schema(model: type[BaseModel], name: str) -> dict[str, Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            schema = model.model_json_schema(schema_generator=_Plain)
    except (PydanticInvalidForJsonSchema, PydanticUserError) as error:
        first = str(error).splitlines()[0][:300]
        raise refuse(name, f"a type hint has no JSON form ({first})", "Take JSON types instead.") from None
    schema.pop("title", None)
    schema.setdefault("properties", {})
    return schema


def _field(default: Any, alias: str, hint: Any, described: Mapping[str, str]) -> Any:
    own = any(isinstance(part, FieldInfo) and part.description for part in getattr(hint, "__metadata__", ()))
    if own or alias not in described:
        return Field(default, alias=alias)
    return Field(default, alias=alias, description=described[alias])


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, SyntaxError, AttributeError) as error:
        raise refuse(name, f"its type hints can't be read ({error})", "Define or import the types first.") from None


def _check_kind(parameter: inspect.Parameter, name: str) -> None:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
        raise refuse(name, f"it takes {stars}{parameter.name}", "Name and type each parameter.")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise refuse(name, f"its parameter {parameter.name!r} is positional-only", "Remove the / from its signature.")
