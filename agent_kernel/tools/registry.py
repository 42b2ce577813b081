"""The tools of one run, and the validation of calls against them."""

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from agent_kernel.errors import InvalidArguments, ToolDeclarationError
from agent_kernel.tools.arguments import canonical, parse
from agent_kernel.tools.builtin.declarations import BUILTIN_TOOLS
from agent_kernel.tools.declaration import ToolDeclaration
from agent_kernel.tools.schema_check import check, check_schema
from agent_kernel.tools.server_tools import CALL_TOOL, FIND_TOOLS, offered

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError

_MARKUP = re.compile(r"<[|\uff5c][^<>]*>?")
"""Marks of a model's template, such as `<|channel|>`; DeepSeek's have wide bars."""
_PREFIX = re.compile(r"\A\s*(?:(?:functions?|tools?|default_api)\s*[.:/]\s*)*")
"""No tool's own name has one of these signs."""
_NUMBER = re.compile(r"(?::\d+)?\s*\Z")
"""Kimi's number of a call, after its name."""
_FAULTS = 3
_READ = 50
_LENGTH = 240
_NAMES = 40


class ToolRegistry:
    """Declarations by name. Raises `ToolDeclarationError` for a faulty declaration or a name given twice.

    Where there are many tools of servers, the model is given a search in their place (`lean`: in any case)."""

    def __init__(self, declarations: Iterable[ToolDeclaration] = (), *, lean: bool = False) -> None:
        self._declarations: dict[str, ToolDeclaration] = {}
        self._validators: dict[str, Draft202012Validator] = {}
        for declaration in declarations:
            check(declaration)
            if declaration.name in self._declarations:
                raise ToolDeclarationError(
                    f"Two tools are named {declaration.name!r}. Rename one of them with @ak.tool(name=...)."
                )
            self._declarations[declaration.name] = declaration
        self._offered = offered(tuple(self._declarations.values()), lean=lean)
        if self._offered.searched:
            self._declarations |= {tool.name: tool for tool in self._offered.tools}

    def __iter__(self) -> Iterator[ToolDeclaration]:
        return iter(self._declarations.values())

    def __len__(self) -> int:
        return len(self._declarations)

    def __contains__(self, name: object) -> bool:
        return name in self._declarations

    def meant(self, name: str) -> str:
        """The name of the tool that a model means: `run_python` by `functions.run_python`, by ` run_python` and by
        `run_python<|channel|>commentary`. The same name where that is no tool, or more than one."""
        parts = {_NUMBER.sub("", _PREFIX.sub("", part), count=1) for part in _MARKUP.split(name)}
        found = parts & self._declarations.keys()
        return found.pop() if len(found) == 1 else name

    def declaration(self, name: str) -> ToolDeclaration:
        """The tool of this name. Raises `InvalidArguments`, which lists the available tools."""
        found = self._declarations.get(name)
        if found is None:
            names = ", ".join(list(self._declarations)[:_NAMES]) or "none"
            raise InvalidArguments(f"There is no tool {_clip(name, 80)!r}. The tools are: {names}.")
        return found

    def searches(self, name: str) -> bool:
        """Whether it is the search for tools of servers."""
        return self._offered.searched and name == FIND_TOOLS

    def unwrapped(self, name: str, raw: str) -> tuple[str, str]:
        """The tool that a model calls, and its arguments: of `call_tool` those of the tool that it names. As they are
        where that can't be told."""
        if name != CALL_TOOL or not self._offered.searched:
            return name, raw
        try:
            arguments = parse(raw)
            inner = arguments.get("arguments") or {}
            found = self._declarations.get(self.meant(str(arguments.get("name"))))
            if found is not None and found.origin is not None and isinstance(inner, dict | str):
                return found.name, inner if isinstance(inner, str) else canonical(inner)
        except InvalidArguments:
            pass
        return name, raw

    def validate(self, name: str, raw: str | dict[str, Any]) -> str:
        """Validate arguments and return their canonical JSON.

        Raises `InvalidArguments` with at most three faults, each naming the field and what is wrong with it.
        """
        declaration = self.declaration(name)
        arguments = parse(raw)
        if name == CALL_TOOL and self._offered.searched:
            named = _clip(str(arguments.get("name")), 80)
            raise InvalidArguments(f"There is no tool {named!r} of a server. Find one by {FIND_TOOLS}.")
        errors = self._misfits(declaration, arguments)
        if errors:
            raise InvalidArguments(_explain(errors, declaration))
        return canonical(arguments)

    def openai_format(self) -> list[dict[str, Any]]:
        """The tools in the format of an OpenAI-compatible request. The list is cached; do not change it.

        Raises `ToolDeclarationError` for parameters that are not a JSON Schema. That check loads jsonschema, so it is
        not made of built-in tools, whose schemas a test checks, nor where tools are only declared.
        """
        return self._openai_format

    @cached_property
    def _openai_format(self) -> list[dict[str, Any]]:
        for tool in self:
            if tool not in BUILTIN_TOOLS:
                check_schema(tool.name, tool.parameters)
        return [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
            }
            for tool in self._offered.tools
        ]

    def _misfits(self, declaration: ToolDeclaration, arguments: dict[str, Any]) -> list["ValidationError"]:
        from agent_kernel.tools.validation import misfits, validator_of

        found = self._validators.get(declaration.name)
        if found is None:
            found = self._validators[declaration.name] = validator_of(declaration.parameters)
        return misfits(found, arguments, _READ)


def _explain(errors: list["ValidationError"], declaration: ToolDeclaration) -> str:
    errors.sort(key=lambda error: (len(error.absolute_path), str(error.absolute_path)))
    shown: list[str] = []
    for error in errors:
        if (sentence := _clip(_sentence(error), _LENGTH)) not in shown:
            shown.append(sentence)
    more = f" And {len(shown) - _FAULTS} more." if len(shown) > _FAULTS else ""
    parameters = ", ".join(list(declaration.parameters.get("properties", {}))[:_NAMES]) or "none"
    return f"{' '.join(shown[:_FAULTS])}{more} The parameters of {declaration.name} are: {parameters}."


def _sentence(error: "ValidationError") -> str:
    field = ".".join(map(str, error.absolute_path)) or "arguments"
    if error.validator == "maxLength" and isinstance(error.instance, str):
        return f"{field} has {len(error.instance):,} characters; {error.validator_value:,} is the most."
    return f"{field}: {error.message}."


def _clip(text: str, length: int) -> str:
    """Shorten a message in the middle, because its end often says what was expected."""
    if len(text) <= length:
        return text
    head = length // 2
    return f"{text[:head]} ... {text[head + 5 - length :]}"
