"""Tools of MCP servers: names, definitions, and the search where there are many."""

import json
from dataclasses import replace
from typing import Any

import pytest

from agent_kernel.approvals.rules import JudgedCall, Rule, weigh
from agent_kernel.errors import ConfigurationError, InvalidArguments, ToolDeclarationError
from agent_kernel.tools.builtin.declarations import BUILTIN_TOOLS, no_looser
from agent_kernel.tools.registry import ToolRegistry
from agent_kernel.tools.server_tools import chosen, declared, definition_digest, difference, find, name_of

OBJECT: dict[str, Any] = {"type": "object", "properties": {"query": {"type": "string"}}}


def test_names_are_plain_or_made_so_with_a_hash_that_stays() -> None:
    assert name_of("github", "search") == "github__search"
    pairs = [("git hub", "search"), ("git_hub", "s.e"), ("git_hub", "s/e"), ("a" * 60, "b" * 60)]
    pairs += [("a__b", "c"), ("a", "b__c"), ("a_", "_b")]
    odd = [name_of(*pair) for pair in pairs]
    assert len({*odd}) == len(odd)
    assert all(len(name) <= 64 and name.replace("-", "_").isidentifier() for name in odd)
    assert odd == [name_of(*pair) for pair in pairs]


@pytest.mark.parametrize("rules", [{"$ref": "https://evil.example/x.json"}, {"type": "string", "title": "x" * 30_000}])
def test_a_schema_that_can_not_be_checked_is_left_out(rules: dict[str, Any]) -> None:
    with pytest.raises(ToolDeclarationError):
        declared("s", "t", "Does.", {"type": "object", "properties": {"a": rules}})


def test_an_allow_is_for_the_definition_that_a_person_saw() -> None:
    tool = declared("s", "t", "Look.", OBJECT)
    changed = declared("s", "t", "Look, and mail it.", OBJECT)
    rule = f"allow s__t defined as {definition_digest(tool)}"
    called = JudgedCall("s__t", {}, "d")  # of the notebook's own tool of that name
    allowed = [weigh([rule], replace(called, definition=definition_digest(one))).allows for one in (tool, changed)]
    assert (*allowed, weigh([rule], called).allows) == (True, False, False)
    assert difference(tool, changed).splitlines() == ['-  "Look."', '+  "Look, and mail it."']
    for bad in (f"deny s__t defined as {definition_digest(tool)}", "allow * defined as 0123456789abcdef"):
        with pytest.raises(ConfigurationError):
            Rule.parse(bad)


def test_patterns_choose_tools() -> None:
    tools = [declared(server, tool, "", OBJECT) for server in ("github", "files") for tool in ("search", "read")]

    def names(*patterns: str) -> list[str]:
        return [tool.name for tool in chosen(tools, patterns)]

    assert names("github.*") == names("github") == ["github__search", "github__read"]
    assert names("files.read", "github__search") == ["github__search", "files__read"]
    assert len(chosen(tools, None)) == 4
    assert chosen(tools, ()) == []


def test_with_more_than_40_tools_those_of_servers_are_searched() -> None:
    many = [declared("s", f"tool{n}", f"Does {n}.", OBJECT) for n in range(26)]
    few = ToolRegistry([*BUILTIN_TOOLS, *many[:25]])
    assert len(few.openai_format()) == 40
    registry = ToolRegistry([*BUILTIN_TOOLS, *many, replace(many[0], name="s__mail", description="Sends a message.")])
    offered = [one["function"]["name"] for one in registry.openai_format()]
    assert offered[-2:] == ["find_tools", "call_tool"]
    assert len(offered) == len(BUILTIN_TOOLS) + 2
    assert find(registry, "send a message").startswith("s__mail: Sends a message.")
    arguments = json.dumps({"name": "s__tool3", "arguments": {"query": "x"}})
    assert registry.unwrapped("call_tool", arguments) == ("s__tool3", '{"query":"x"}')
    name, raw = registry.unwrapped("call_tool", json.dumps({"name": "run_shell", "arguments": {"command": "x"}}))
    with pytest.raises(InvalidArguments, match="find_tools"):
        registry.validate(name, raw)
    assert ToolRegistry([*BUILTIN_TOOLS, many[0]], lean=True).searches("find_tools")


def test_a_kernel_can_not_declare_a_servers_tool() -> None:
    assert no_looser(declared("s", "t", "", OBJECT)).origin is None
