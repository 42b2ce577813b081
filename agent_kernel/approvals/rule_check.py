"""Rules are refused when they are made where they could never say anything: a slip would leave a door open."""

from collections.abc import Iterable, Mapping
from typing import Any

from agent_kernel.approvals.rules import Rule
from agent_kernel.errors import ConfigurationError
from agent_kernel.tools.builtin.declarations import BUILTIN_TOOLS
from agent_kernel.tools.declaration import ToolDeclaration


def check_rules(texts: Iterable[str], own: Iterable[ToolDeclaration] | None = None) -> None:
    """Refuse rules that are not understood, and those on an argument that the tool does not have.

    `own` are the tools beside the built-in ones; `None` where they are not known yet. A rule on a tool that is not
    known can't be checked, nor can one on every tool while some are not. Raises `ConfigurationError`.
    """
    tools = {tool.name: tool.parameters for tool in (*BUILTIN_TOOLS, *(own or ()))}
    for text in texts:
        rule = Rule.parse(text)
        if rule.argument is None or rule.argument == "digest":
            continue
        if rule.tool == "*":
            judged = list(tools.values()) if own is not None else []
        else:
            judged = [tools[rule.tool]] if rule.tool in tools else []
        if not judged or any(rule.argument in _names(each) or _is_open(each) for each in judged):
            continue
        whose = "no tool has" if rule.tool == "*" else f"the tool {rule.tool} does not have"
        names = ", ".join(dict.fromkeys(name for each in judged for name in _names(each))) or "none"
        raise ConfigurationError(
            f"The rule {text!r} is on an argument {rule.argument!r}, which {whose}. The arguments are: {names}."
        )


def _names(parameters: Mapping[str, Any]) -> list[str]:
    return list(parameters.get("properties", {}))


def _is_open(parameters: Mapping[str, Any]) -> bool:
    """Whether a tool may take arguments that it does not name."""
    return bool(parameters.get("additionalProperties")) or "patternProperties" in parameters
