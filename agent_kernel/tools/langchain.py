"""Adapts LangChain tools. LangChain is not imported here: a user who passes one of its tools has it."""

import inspect
import typing
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, cast

from agent_kernel.tools.schema_check import refuse

current_tool_call_id: ContextVar[str] = ContextVar("agent_kernel_tool_call_id", default="call")
"""The model's id of the running call, for tools with an injected call id."""

_CALL_ID = "InjectedToolCallId"


def is_langchain(candidate: Any) -> bool:
    names = ("name", "description", "invoke", "ainvoke", "args_schema")
    return not inspect.isclass(candidate) and all(hasattr(candidate, name) for name in names)


def function_of(tool: Any) -> Callable[..., Any]:
    """The function that a call runs. Raises `ToolDeclarationError` if the tool needs what only LangChain's agents
    have."""
    as_call = _takes_call_id(tool)

    def given(arguments: dict[str, Any]) -> dict[str, Any]:
        if not as_call:
            return arguments
        return {"type": "tool_call", "id": current_tool_call_id.get(), "name": tool.name, "args": arguments}

    def run(**arguments: Any) -> Any:
        return _value(tool.invoke(given(arguments)), as_call)

    async def run_async(**arguments: Any) -> Any:
        return _value(await tool.ainvoke(given(arguments)), as_call)

    only_async = getattr(tool, "coroutine", None) is not None and getattr(tool, "func", None) is None
    return run_async if only_async else run


def parameters_of(tool: Any) -> dict[str, Any]:
    """The JSON Schema of the arguments that the model gives."""
    source = getattr(tool, "tool_call_schema", None) or tool.args_schema or tool.get_input_schema()
    found = dict(source) if isinstance(source, dict) else cast("dict[str, Any]", source.model_json_schema())
    single = getattr(tool, "args", None)
    if tool.args_schema is None and isinstance(single, dict) and set(single) != set(found.get("properties", {})):
        # A tool with one text argument has no schema: LangChain would derive one from its generic signature.
        found = {"properties": single, "required": list(single)}
    return {"type": "object", **{key: value for key, value in found.items() if key not in ("title", "description")}}


def _takes_call_id(tool: Any) -> bool:
    found = False
    for name, (kind, is_optional) in _injected(tool).items():
        if kind == _CALL_ID:
            found = True
        elif not is_optional:
            raise refuse(
                str(tool.name),
                f"its argument {name!r} ({kind}) is filled in by LangChain's or LangGraph's own agents only",
                "Give it a default, or write a function that calls the tool with it.",
            )
    return found


def _injected(tool: Any) -> dict[str, tuple[str, bool]]:
    """The injected arguments: what each is, and whether it is optional."""
    found: dict[str, tuple[str, bool]] = {}
    for name, field in getattr(tool.args_schema, "model_fields", {}).items():
        if kind := _injection(field.annotation, field.metadata):
            found[name] = kind, not field.is_required()
    function = getattr(tool, "func", None) or getattr(tool, "coroutine", None) or getattr(tool, "_run", None)
    for name, parameter in _parameters(function).items():
        hint = parameter.annotation
        if kind := _injection(hint, getattr(hint, "__metadata__", ())):
            found.setdefault(name, (kind, parameter.default is not parameter.empty))
    return found


def _parameters(function: Any) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function, eval_str=True).parameters
    except (TypeError, ValueError, NameError, AttributeError, SyntaxError):
        return {}


def _injection(hint: Any, metadata: Any) -> str:
    """What LangChain injects for an argument, by its marker class; empty for an ordinary argument."""
    for mark in (hint, typing.get_origin(hint), *metadata, *getattr(hint, "__metadata__", ())):
        kind = mark if inspect.isclass(mark) else type(mark)
        names = [one.__name__ for one in kind.__mro__]
        if "InjectedToolArg" in names or "_DirectlyInjectedToolArg" in names:
            return _CALL_ID if _CALL_ID in names else kind.__name__
    return ""


def _value(result: Any, as_call: bool) -> Any:
    """The tool's return value, unpacked from LangChain's message."""
    return getattr(result, "content", result) if as_call else result
