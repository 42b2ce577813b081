"""Makes tools of Python functions: the decorator `@tool`, and `as_tool` for everything that users pass as a tool."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast, get_args, overload

from docstring_parser import ParseError, parse

from agent_kernel.errors import ToolDeclarationError
from agent_kernel.protocol.vocabulary import Approval
from agent_kernel.tools import langchain, schema_check
from agent_kernel.tools.declaration import DeclaredApproval, ToolDeclaration, cached, is_timeout
from agent_kernel.tools.signatures import arguments_model, parameters_schema
from agent_kernel.tools.tool import ApprovalFunction, Tool

F = TypeVar("F", bound=Callable[..., Any])
_MARK = "__agent_tool__"


@overload
def tool(
    function: F,
    /,
    *,
    approval: Approval | ApprovalFunction = "ask",
    read_only: bool = False,
    name: str | None = None,
    timeout: float | None = None,
    cache: bool | float = False,
) -> F: ...
@overload
def tool(
    *,
    approval: Approval | ApprovalFunction = "ask",
    read_only: bool = False,
    name: str | None = None,
    timeout: float | None = None,
    cache: bool | float = False,
) -> Callable[[F], F]: ...
def tool(
    function: F | None = None,
    /,
    *,
    approval: Approval | ApprovalFunction = "ask",
    read_only: bool = False,
    name: str | None = None,
    timeout: float | None = None,
    cache: bool | float = False,
) -> F | Callable[[F], F]:
    """Declare a function as a tool. It remains the same plain function.

    The values of a generator are shown as they come; the result is all of them, one a line. For a LangChain tool,
    `tool(langchain_tool, approval="allow", read_only=True)` returns a tool with these settings.
    `approval`: "ask", "allow", "deny", or a callable that takes the arguments and returns one of these.
    `read_only`: calls change nothing, so they may run in plan mode.
    `timeout`: seconds after which a call is interrupted and the model is told so. `None` means no limit.
    `cache`, for a read-only tool: `True`, or seconds. A call that asks nobody and has the arguments of an earlier one
    in its conversation is given that one's outcome again and does not run, until a cell or a call that may change
    something has run, or the seconds are over.
    Raises `ToolDeclarationError` or `ConfigurationError`, which names the tool, the fault and what to do.
    """

    def decorate(function: F) -> F:
        made = _made(function, approval=approval, read_only=read_only, name=name, timeout=timeout, cache=cache)
        if langchain.is_langchain(function):
            return cast("F", made)
        try:
            setattr(function, _MARK, made)
        except AttributeError:
            raise schema_check.refuse(
                made.declaration.name, "it is not a plain function", "Write a function that calls it."
            ) from None
        return function

    return decorate if function is None else decorate(function)


def as_tool(candidate: Any) -> Tool:
    """A tool from a `Tool`, a function (decorated or not) or a LangChain `BaseTool`. Raises `ToolDeclarationError`."""
    if isinstance(candidate, Tool):
        schema_check.check(candidate.declaration)
        return candidate
    marked = getattr(candidate, _MARK, None)
    if isinstance(marked, Tool):
        # functools.wraps copies the declaration of the inner function; the wrapper must be what runs.
        return marked if marked.function is candidate else dataclasses.replace(marked, function=candidate)
    if langchain.is_langchain(candidate) or inspect.isroutine(candidate):
        return _made(candidate)
    raise ToolDeclarationError(
        f"An object of type {type(candidate).__name__!r} is not a tool. Pass a function with type hints and a "
        "docstring, an @ak.tool function or a LangChain tool."
    )


def _made(
    candidate: Any,
    *,
    approval: Approval | ApprovalFunction = "ask",
    read_only: bool = False,
    name: str | None = None,
    timeout: float | None = None,
    cache: bool | float = False,
) -> Tool:
    """The tool of a function or of a LangChain tool, with these settings."""
    is_langchain = langchain.is_langchain(candidate)
    own_name = str(candidate.name) if is_langchain else getattr(candidate, "__name__", type(candidate).__name__)
    name = name if name is not None else own_name
    declared = _declared(name, approval)
    if timeout is not None and not is_timeout(timeout):
        raise schema_check.refuse(name, "its timeout is not a number of seconds above 0", "Leave it out for no limit.")
    model = None
    if is_langchain:
        description, parameters = str(candidate.description or ""), langchain.parameters_of(candidate)
    else:
        description, described = _read_docstring(inspect.getdoc(candidate) or "")
        try:
            model = arguments_model(candidate, name, described)
        except ValueError as error:
            why = f"its signature can't be read ({error})"
            raise schema_check.refuse(name, why, "Write a function that calls it.") from None
        parameters = parameters_schema(model, name)
    declaration = ToolDeclaration(
        name=name,
        description=description,
        parameters=parameters,
        approval=declared,
        read_only=read_only,
        timeout=timeout,
    )
    schema_check.check(declaration)
    if is_langchain:
        schema_check.check_schema(name, parameters)
    function = langchain.function_of(candidate) if is_langchain else candidate
    judge = approval if callable(approval) else None
    return Tool(cached(declaration, cache), function, judge, model)


def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The descriptions of the function and its parameters, from a Google, NumPy, Sphinx or Epydoc docstring."""
    try:
        parsed = parse(text)
    except ParseError:
        return text.strip(), {}
    described = {p.arg_name: " ".join(p.description.split()) for p in parsed.params if p.description}
    return (parsed.description or "").strip(), described


def _declared(name: str, approval: Approval | ApprovalFunction) -> DeclaredApproval:
    if not callable(approval) and approval not in get_args(Approval):
        raise schema_check.refuse(name, f"its approval is {approval!r}", 'Use "ask", "allow", "deny" or a callable.')
    if inspect.iscoroutinefunction(approval):
        raise schema_check.refuse(name, "its approval callable is asynchronous", "Use a plain function.")
    return "dynamic" if callable(approval) else approval
