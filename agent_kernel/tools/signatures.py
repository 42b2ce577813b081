"""Makes models of the arguments of functions, and JSON Schemas of those."""

import inspect
import typing
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import SchemaError

from agent_kernel.tools.schema_check import refuse


class _Plain(GenerateJsonSchema):
    """Omits titles, which only repeat names, and defaults that are not JSON."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 -- pydantic's form

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 -- pydantic's form
        return False


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
