"""The language of rules: parsing, checking, and weighing calls against them.

    allow run_python
    deny run_shell where command matches "curl *"
    ask write_file where path matches "*.parquet"
    deny drop where force is true
    allow run_python where digest is 9f2c...        (this exact call)
    allow run_shell inside walls where command matches "make *"
    allow github__search defined as 9f2c...         (as the server defines the tool now)
    allow run_python where warnings within ["Writes files"]    (code that a card warns of no more than that)

A rule is a verb, a tool's name or `*`, and at most one condition on an argument. `is` compares JSON values: `true`,
`3`, `null`, a text with or without quotes, a list, an object; a bare word such as `true` also matches the text "true".
`matches` compares a text with a shell pattern (`fnmatch`). An argument that a call omits has its default.

Where a rule allows by `path`, a `*` stays within one folder and a path with `..` is never covered, so that
`exports/*.csv` allows nothing outside of `exports`. Where it denies or asks by `path`, the path counts as it is written
and without its `.` and `..`, so that `./secret/key` is no way around `secret/*`. Hidden files are not allowed by a
pattern that does not name their dot. For the built-in file tools a path also counts as the place to which links lead:
see `weigh`. The `command` of `run_shell` is compared word by word: see `shell_rules`.

A rule on `run_shell` may be for calls `inside walls`, or `outside walls`, where there are none around the command. One
that allows and says neither covers no call that asks to run outside (`outside` is true).

A rule that allows a tool of an MCP server may name the definition that a person saw: `Always allow` saves no other. It
covers no call of the tool once its server describes it otherwise.

`warnings within` is a plain reading of the code of `run_python`, as the card shows it: help for a person, and no wall.

A rule that allows and can't be evaluated covers nothing; one that denies or asks and can't be evaluated asks.
"""

import fnmatch
import json
import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from agent_kernel.approvals.shell_rules import Cover, allows, restricts, restricts_exactly, within_folder
from agent_kernel.errors import ConfigurationError
from agent_kernel.protocol.calls import Place
from agent_kernel.protocol.json_once import RepeatedName, unique
from agent_kernel.protocol.vocabulary import Approval
from agent_kernel.tools.builtin.declarations import BUILTIN_TOOLS
from agent_kernel.tools.declaration import ToolDeclaration
from agent_kernel.tools.review.preview import titles, warnings

_RULE = re.compile(
    r"(?P<verb>allow|ask|deny)\s+(?P<tool>\*|[A-Za-z0-9_-]+)"
    r"(?:(?<=\srun_shell)\s+(?P<walls>inside|outside)\s+walls)?"
    r"(?:\s+defined\s+as\s+(?P<definition>[0-9a-f]{16}))?"
    r"(?:\s+where\s+(?P<argument>\w+)\s+(?P<relation>matches|is|within)\s+"
    r"(?:\"(?P<quoted>.*)\"|(?P<json>[\[{].*)|(?P<bare>\S+)))?"
)
_SECOND_CONDITION = re.compile(r"\"\s+(?:and|or|where)\s+\w+\s+(?:matches|is)\s")
_MISSING = object()


@dataclass(frozen=True, slots=True)
class JudgedCall:
    """The properties of a call that rules and policy judge by."""

    tool_name: str
    arguments: dict[str, Any]
    digest: str
    declared: Approval = "ask"
    """The tool's declared approval, or the result of its `approval` callable."""
    read_only: bool = False
    always_asks: bool = False
    """Whether no rule may approve it, because it may have run before."""
    checks_itself: bool = False
    """Whether `declared` is the answer of the tool's own callable to these arguments."""
    parameters: Mapping[str, Any] | None = None
    """The tool's JSON Schema, from which rules take the defaults of omitted arguments."""
    edits_in_folder: bool = False
    """Whether it writes a file that the mode `edit` covers: see `agent_kernel.tools.builtin.places.may_edit`."""
    place: Place | None = None
    """For a call of a file tool: the resolved place of its path."""
    inside: bool | None = None
    """Whether a shell command runs inside walls, if that is known."""
    definition: str = ""
    """For a tool of an MCP server: the digest of its definition."""


@dataclass(frozen=True, slots=True)
class Rule:
    verb: Approval
    tool: str
    argument: str | None = None
    relation: Literal["matches", "is", "within"] = "is"
    value: str = ""
    """The text after the relation, without quotes."""
    quoted: bool = True
    walls: Literal["inside", "outside"] | None = None
    """Which calls of `run_shell` it is for; `None`: both, but that it allows none which asks to run outside."""
    definition: str = ""
    """The digest of the definition of a server's tool for which it allows; empty: any."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse one rule. Raises `ConfigurationError` with the text and examples of valid rules."""
        found = _RULE.fullmatch(text.strip())
        if found is None or _SECOND_CONDITION.search(text):
            raise _not_understood(text)
        verb: Any = found["verb"]
        relation: Any = found["relation"] or "is"
        value = next((part for part in found.group("quoted", "json", "bare") if part is not None), "")
        walls: Any = found["walls"]
        pinned = found["definition"] or ""
        if pinned and (verb != "allow" or found["tool"] == "*"):
            raise _not_understood(text)
        rule = cls(verb, found["tool"], found["argument"], relation, value, found["quoted"] is not None, walls, pinned)
        if (
            found["json"] is not None
            and re.search(r"\s", value)
            and (relation == "matches" or rule._json() is _MISSING)
        ):
            raise _not_understood(text)
        if relation == "within" and not rule._is_on_warnings():
            raise _not_understood(text)
        return rule

    def weigh(self, call: JudgedCall) -> Cover:
        """Whether the rule covers a call."""
        if self.tool not in ("*", call.tool_name) or self.definition not in ("", call.definition):
            return "no"
        here = self.weigh_walls(call)
        found = here if here == "no" else self._weigh_condition(call)
        return here if found == "yes" else found

    def weigh_walls(self, call: JudgedCall) -> Cover:
        """Whether the rule is for a call within these walls, or without."""
        if self.walls is None:
            silent = (
                self.verb == "allow" and self.argument != "outside" and leaves_walls(call.tool_name, call.arguments)
            )
            return "no" if silent else "yes"
        if call.inside is None:
            return "unclear"
        return "yes" if call.inside is (self.walls == "inside") else "no"

    def _weigh_condition(self, call: JudgedCall) -> Cover:
        if self.argument is None:
            return "yes"
        if self.relation == "within":
            return "yes" if set(titles(warnings(call.tool_name, call.arguments))) <= set(self._json()) else "no"
        actual = call.digest if self.argument == "digest" else self._actual(call)
        if actual is _MISSING:
            known = call.parameters is not None and self.argument not in _properties(call.parameters)
            # A rule for `*` applies only to tools that have the argument.
            return "no" if self.tool == "*" and known else "unclear"
        if isinstance(actual, str):
            return self._weigh_text(call.tool_name, actual)
        if self.relation == "matches":
            return "unclear"
        return "yes" if any(same_json(actual, value) for value in self._values()) else "no"

    def _is_on_warnings(self) -> bool:
        named = self._json()
        texts = isinstance(named, list) and all(isinstance(one, str) for one in named)
        return texts and (self.tool, self.argument) == ("run_python", "warnings")

    def is_on_command(self, tool: str) -> bool:
        """Whether it is a condition on the `command` of `run_shell`."""
        return tool == "run_shell" and self.argument == "command" and self.tool in ("*", tool)

    def _actual(self, call: JudgedCall) -> Any:
        if self.argument in call.arguments:
            return call.arguments[self.argument]
        described = _properties(call.parameters or {}).get(self.argument or "")
        return described.get("default", _MISSING) if isinstance(described, Mapping) else _MISSING

    def _weigh_text(self, tool: str, actual: str) -> Cover:
        if self.is_on_command(tool):
            if self.verb != "allow":
                return (restricts if self.relation == "matches" else restricts_exactly)(self.value, actual)
            fits = self._fits(actual) if self.relation == "is" else allows([self.value], actual)
        elif self.argument != "path":
            fits = self._fits(actual)
        elif self.verb != "allow":
            fits = self._fits(actual) or self._fits(posixpath.normpath(actual))
        else:
            fits = within_folder(actual, self.value) if self.relation == "matches" else self._fits(actual)
        return "yes" if fits else "no"

    def _fits(self, actual: str) -> bool:
        return actual in self._values() if self.relation == "is" else fnmatch.fnmatchcase(actual, self.value)

    def _values(self) -> list[Any]:
        """The values that `is` accepts. A bare word counts as its JSON value and as a text, as it did in old rules."""
        meant = _MISSING if self.quoted else self._json()
        return [self.value] if meant is _MISSING else [meant, self.value]

    def _json(self) -> Any:
        try:
            return json.loads(self.value, object_pairs_hook=unique, parse_constant=_refuse)
        except (ValueError, RecursionError, RepeatedName):
            return _MISSING


@dataclass(frozen=True, slots=True)
class Weighed:
    """The combined verdict of several rules on one call."""

    denied_by: str | None = None
    asks: bool = False
    allows: bool = False


def leaves_walls(tool: str, arguments: Mapping[str, Any]) -> bool:
    """Whether a call asks to run outside the walls."""
    return tool == "run_shell" and arguments.get("outside") is True


def weigh(texts: Iterable[str], call: JudgedCall) -> Weighed:
    """Weigh rules for a call; for one that opens a file, by its place.

    A rule that allows has to cover the resolved place; one that denies or asks may cover that or the path as it is
    written. A rule for one exact call allows only a path without links, because links may lead elsewhere later.
    """
    texts = tuple(texts)
    written = _weigh_written(texts, call)
    place = call.place
    if place is None:
        return written
    at_place = replace(call, digest="" if place.linked else call.digest, inside=None, definition="")
    opened = [
        _weigh_written(texts, replace(at_place, arguments=call.arguments | {"path": name}))
        for name in place.spellings()
    ]
    return Weighed(
        denied_by=next((said.denied_by for said in (written, *opened) if said.denied_by is not None), None),
        asks=any(said.asks for said in (written, *opened)),
        allows=any(said.allows for said in opened),
    )


def _weigh_written(texts: Iterable[str], call: JudgedCall) -> Weighed:
    """Combine rules for a call by its arguments. One rule is enough to deny, to ask or to allow; but each command of a
    shell line may be allowed by a different rule."""
    asks = allowed = False
    patterns: list[str] = []
    for text in texts:
        rule = Rule.parse(text)
        cover = rule.weigh(call)
        if rule.verb == "deny" and cover == "yes":
            return Weighed(denied_by=text)
        if rule.verb != "allow":
            asks = asks or cover != "no"
        elif rule.relation == "matches" and rule.is_on_command(call.tool_name):
            patterns += [rule.value] if rule.weigh_walls(call) == "yes" else []
        else:
            allowed = allowed or cover == "yes"
    command = call.arguments.get("command")
    if not allowed and patterns and isinstance(command, str):
        allowed = allows(patterns, command)
    return Weighed(asks=asks, allows=allowed)


def check_rules(texts: Iterable[str], own: Iterable[ToolDeclaration] | None = None) -> None:
    """Refuse rules that can't be parsed, and rules on an argument that the tool does not have, which would never match.

    `own` are the tools beside the built-in ones, or `None` if they are not known yet. A rule on an unknown tool can't
    be checked, nor can one on every tool while some are unknown. Raises `ConfigurationError`.
    """
    tools = {tool.name: tool.parameters for tool in (*BUILTIN_TOOLS, *(own or ()))}
    for text in texts:
        rule = Rule.parse(text)
        if rule.argument is None or rule.argument == "digest" or rule.relation == "within":
            continue
        if rule.tool == "*":
            judged = list(tools.values()) if own is not None else []
        else:
            judged = [tools[rule.tool]] if rule.tool in tools else []
        if not judged or any(rule.argument in _properties(each) or _is_open(each) for each in judged):
            continue
        whose = "no tool has" if rule.tool == "*" else f"the tool {rule.tool} does not have"
        names = ", ".join(dict.fromkeys(name for each in judged for name in _properties(each))) or "none"
        raise ConfigurationError(
            f"The rule {text!r} is on an argument {rule.argument!r}, which {whose}. The arguments are: {names}."
        )


def same_json(left: Any, right: Any) -> bool:
    """Whether two values are equal as JSON: 1 equals 1.0 and does not equal true."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left == right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same_json, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same_json(left[name], right[name]) for name in left)
    return type(left) is type(right) and left == right


def _properties(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    found = parameters.get("properties", {})
    return found if isinstance(found, Mapping) else {}


def _is_open(parameters: Mapping[str, Any]) -> bool:
    """Whether a tool may take arguments that its schema does not name."""
    return bool(parameters.get("additionalProperties")) or "patternProperties" in parameters


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def _not_understood(text: str) -> ConfigurationError:
    return ConfigurationError(
        f"The rule {text!r} is not understood. Write for example: allow run_python; "
        'deny run_shell where command matches "curl *"; deny drop where force is true. '
        "A rule has one condition at most."
    )
