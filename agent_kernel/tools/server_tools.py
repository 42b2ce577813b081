"""Tools of MCP servers as models, policy and people know them: names, definitions and what has changed in them, and the
search through which a model finds them where there are many.

What a server says is data: no text of it allows anything.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff
from fnmatch import fnmatchcase
from typing import Any

from agent_kernel.errors import ToolDeclarationError
from agent_kernel.protocol.tools import ServerTool, ToolDeclaration
from agent_kernel.tools.schema_check import SAYS_TYPE, check, check_schema

MOST_OFFERED = 40
"""The most tools that a model is given at once; with more, those of servers are found by `find_tools`."""
MOST_FOUND = 8
_NAME_CHARACTERS = 64
_HASH_CHARACTERS = 8
_LONGEST_NAME = 500
_ODD = re.compile(r"[^A-Za-z0-9_-]")
_DESCRIPTION_CHARACTERS = 4_000
_SCHEMA_CHARACTERS = 20_000
_SHOWN_CHARACTERS = 2_000
_CHARACTERS_PER_TOKEN = 4
_ANYTHING = ["string", "number", "boolean", "object", "array", "null"]
START_SERVERS = "start_mcp_servers"
"""The name of the call that starts the servers of a notebook's folder. No model can make it."""
DEFINITION = "defined as "
"""How a rule, and what an approval is bound to, begins before a definition's digest."""
CACHE_SECONDS = 300.0
"""For which an outcome of a server's tool may be given again: nobody here sees what changes at the server."""
DIGEST_CHARACTERS = 16
"""Of a definition's digest, as rules have it."""


def name_of(server: str, tool: str) -> str:
    """`SERVER__TOOL`. A name that a model's service would refuse, or that could be two tools', is made another with a
    hash, always the same."""
    plain = f"{server}__{tool}"
    name = _ODD.sub("_", plain)
    if name == plain and len(name) <= _NAME_CHARACTERS and "__" not in server and not server.endswith("_"):
        return name
    mark = hashlib.sha256(f"{server}\0{tool}".encode()).hexdigest()[:_HASH_CHARACTERS]
    return f"{name[: _NAME_CHARACTERS - _HASH_CHARACTERS - 1]}_{mark}"


def declared(
    server: str,
    tool: str,
    description: str,
    schema: Mapping[str, Any],
    hints: Sequence[str] = (),
    timeout: float | None = None,
) -> ToolDeclaration:
    """The declaration of a server's tool. Policy asks about it: annotations never allow anything.

    Raises `ToolDeclarationError` for one that can't be offered. Loads jsonschema: call it in a thread.
    """
    if len(tool) > _LONGEST_NAME:
        raise ToolDeclarationError(f"The tool {tool[:80]!r} can't be offered: its name is too long.")
    if len(json.dumps(schema)) > _SCHEMA_CHARACTERS:
        raise ToolDeclarationError(f"The tool {tool[:80]!r} can't be offered: its parameters are too long.")
    # Without halves of surrogate pairs, which no service takes.
    whole = description.encode(errors="replace").decode().strip()
    text = whole[:_DESCRIPTION_CHARACTERS] or f"{tool[:80]}, a tool of the server {server}."
    found = ToolDeclaration(
        name=name_of(server, tool),
        description=text,
        parameters=_typed(schema),
        timeout=timeout,
        origin=ServerTool(server, tool, tuple(hints)),
    )
    check(found)
    check_schema(found.name, found.parameters)
    return found


def _typed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with a type for each parameter that has none, which means anything."""
    properties = schema.get("properties")
    found = {**schema, "type": "object", "properties": properties if isinstance(properties, dict) else {}}
    for name, described in found["properties"].items():
        if isinstance(described, dict) and not SAYS_TYPE & described.keys():
            found["properties"] = found["properties"] | {name: described | {"type": _ANYTHING}}
    return found


def definition(tool: ToolDeclaration) -> str:
    """All that decides what a model and a person take the tool for, as text in lines."""
    assert tool.origin is not None
    content = {
        "server": tool.origin.server,
        "name": tool.origin.tool,
        "description": tool.description.split("\n"),
        "hints": tool.origin.hints,
        "parameters": tool.parameters,
    }
    return json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True)


def definition_digest(tool: ToolDeclaration | None) -> str:
    """The digest to which an `allow` of a server's tool is bound; empty for any other tool."""
    if tool is None or tool.origin is None:
        return ""
    return hashlib.sha256(definition(tool).encode()).hexdigest()[:DIGEST_CHARACTERS]


def difference(before: ToolDeclaration, now: ToolDeclaration) -> str:
    """What is another in a definition, in lines with `-` and `+`."""
    lines = unified_diff(definition(before).splitlines(), definition(now).splitlines(), n=0, lineterm="")
    text = "\n".join(line for line in lines if line[:3] not in ("---", "+++") and line[:2] != "@@")
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]} …"


def tokens_of(tools: Iterable[ToolDeclaration]) -> int:
    """About how many tokens their declarations take in each request."""
    size = sum(len(tool.name) + len(tool.description) + len(json.dumps(tool.parameters)) + 40 for tool in tools)
    return size // _CHARACTERS_PER_TOKEN


def chosen(
    tools: Iterable[ToolDeclaration], patterns: Sequence[str] | None, taken: Collection[str] = ()
) -> list[ToolDeclaration]:
    """The tools that a run wants: `github.*`, `github.create_issue` or a name; all of them for `None`. Names that are
    `taken` are left out."""
    wanted = [tool for tool in tools if patterns is None or any(_fits(tool, pattern) for pattern in patterns)]
    return [tool for tool in wanted if tool.name not in taken]


def with_cache(tools: Iterable[ToolDeclaration], names: Collection[str]) -> list[ToolDeclaration]:
    """The tools, of which those that a person has named, as `github.search_code` or `github__search_code`, may have
    their outcomes given again for some time."""
    return [replace(tool, cache_seconds=CACHE_SECONDS) if _names(tool) & {*names} else tool for tool in tools]


def unfit(tools: Iterable[ToolDeclaration], patterns: Iterable[str]) -> str:
    """What a person is told of patterns that fit none of these tools; nothing where each fits one."""
    theirs = {tool.name: tool for tool in tools if tool.origin is not None}.values()
    wrong = [pattern for pattern in patterns if not chosen(theirs, [pattern])]
    known = ", ".join(f"{server}.* ({count})" for server, count in _counted(theirs)) or "none, as no server is ready"
    return f"No tool of an MCP server fits {', '.join(wrong)}. There are: {known}." if wrong else ""


def _counted(theirs: Iterable[ToolDeclaration]) -> list[tuple[str, int]]:
    """The servers of these tools, and how many each has."""
    return sorted(Counter(tool.origin.server for tool in theirs if tool.origin is not None).items())


def _names(tool: ToolDeclaration) -> set[str]:
    assert tool.origin is not None
    return {tool.name, f"{tool.origin.server}.{tool.origin.tool}"}


def _fits(tool: ToolDeclaration, pattern: str) -> bool:
    assert tool.origin is not None
    return pattern == tool.origin.server or any(name == pattern or fnmatchcase(name, pattern) for name in _names(tool))


# Many tools: a search

FIND_TOOLS, CALL_TOOL = "find_tools", "call_tool"


@dataclass(frozen=True, slots=True)
class Offered:
    """What a model is given of a run's tools."""

    tools: tuple[ToolDeclaration, ...]
    searched: bool
    """Whether the tools of servers are found by `find_tools`, and called by `call_tool`."""


def offered(tools: Sequence[ToolDeclaration], *, lean: bool = False) -> Offered:
    """All tools, or, where there are too many, the search in place of those of servers. A model whose context is small
    (`lean`) always gets the search."""
    theirs = [tool for tool in tools if tool.origin is not None]
    ours = tuple(tool for tool in tools if tool.origin is None and tool.name not in (FIND_TOOLS, CALL_TOOL))
    if recorded := [tool for tool in theirs if tool.name in (FIND_TOOLS, CALL_TOOL)]:
        return Offered((*ours, *recorded), searched=True)
    if not theirs or (len(tools) <= MOST_OFFERED and not lean):
        return Offered(tuple(tools), searched=False)
    return Offered((*ours, *_search_of(theirs)), searched=True)


def _search_of(theirs: Sequence[ToolDeclaration]) -> tuple[ToolDeclaration, ToolDeclaration]:
    named = ", ".join(f"{server} ({count})" for server, count in _counted(theirs))
    find_tools = ToolDeclaration(
        name=FIND_TOOLS,
        description=f"Find tools of the connected servers by what they do. Servers and their tools: {named}.",
        parameters=_object("query", query={"type": "string", "description": "Words of what you want to do."}),
        approval="allow",
        read_only=True,
    )
    call_tool = ToolDeclaration(
        name=CALL_TOOL,
        description="Call a tool that find_tools has found, by its name.",
        parameters=_object("name", name={"type": "string"}, arguments={"type": "object"}),
    )
    return find_tools, call_tool


def _object(required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [required], "additionalProperties": False}


def find(tools: Iterable[ToolDeclaration], query: str) -> str:
    """The tools of servers that fit a query best, with their parameters, for the model."""
    words = set(re.findall(r"\w+", query.lower()))
    scored = [(_score(tool, words), tool) for tool in tools if tool.origin is not None]
    best = sorted((one for one in scored if one[0]), key=lambda one: (-one[0], one[1].name))[:MOST_FOUND]
    if not best:
        return "No tool fits. Try other words, or the name of a server."
    return "\n\n".join(
        f"{tool.name}: {tool.description}\nparameters: {json.dumps(tool.parameters, ensure_ascii=False)}"
        for _, tool in best
    )


def _score(tool: ToolDeclaration, words: set[str]) -> int:
    """A word counts three times in the name, and once in the description."""
    assert tool.origin is not None
    name, text = f"{tool.origin.server} {tool.origin.tool}".lower(), tool.description.lower()
    return sum(3 * (word in name) + (word in text) for word in words)
