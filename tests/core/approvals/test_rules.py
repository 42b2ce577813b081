"""Rules compare JSON values, are refused where they could never say anything, and ask where they can't be judged."""

from typing import Any

import pytest

from agent_kernel.approvals.policy import Policy
from agent_kernel.approvals.rules import JudgedCall, check_rules
from agent_kernel.errors import ConfigurationError
from agent_kernel.protocol.vocabulary import Approval
from agent_kernel.tools.declaration import ToolDeclaration

DROP = {
    "type": "object",
    "properties": {
        "table": {"type": "string"},
        "force": {"type": "boolean", "default": False},
        "columns": {"type": "array"},
        "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
    },
    "required": ["table"],
    "additionalProperties": False,
}

DECLARED = ToolDeclaration("drop", "Drops.", DROP)


def judged(*rules: str, **arguments: Any) -> Approval:
    call = JudgedCall("drop", arguments, "d" * 64, "ask", read_only=False, parameters=DROP)
    return Policy(["allow drop", *rules] if not rules[0].startswith("allow") else rules).judge(call).approval


@pytest.mark.parametrize(
    ("condition", "value", "same"),
    [
        ("force is true", True, True),
        ("force is true", 1, False),
        ("force is 1", 1, True),
        ('force is "text"', "text", True),
        ('force is "3"', 3, False),
        ("force is true", "true", True),
        ('force is ["a", 1]', ["a", True], False),
        ('force is {"a": [true], "b": {}}', {"b": {}, "a": [True]}, True),
        ('force is {"a": 1}', {"a": 1, "b": 2}, False),
    ],
)
def test_values_compare_as_json(condition: str, value: Any, same: bool) -> None:
    assert judged(f"deny drop where {condition}", table="t", force=value) == ("deny" if same else "allow")
    assert judged(f"ask drop where {condition}", table="t", force=value) == ("ask" if same else "allow")
    assert judged(f"allow drop where {condition}", table="t", force=value) == ("allow" if same else "ask")


def test_an_argument_that_is_left_out_has_its_default() -> None:
    assert judged("deny drop where force is false", table="t") == "deny"
    assert judged("deny drop where force is true", table="t") == "allow"
    assert judged("deny drop where limit is null", table="t") == "deny"
    assert judged("allow drop where force is false", table="t") == "allow"


@pytest.mark.parametrize(
    ("condition", "arguments"),
    [
        ('columns matches "a*"', {"table": "t", "columns": ["a"]}),
        ('force matches "t*"', {"table": "t", "force": True}),
        ('columns is ["a"]', {"table": "t"}),
        ("tabel is t", {"table": "t"}),
    ],
    ids=["a pattern on a list", "a pattern on a boolean", "left out, and without a default", "no such argument"],
)
def test_a_rule_that_cant_be_judged_asks_and_allows_nothing(condition: str, arguments: dict[str, Any]) -> None:
    assert judged(f"deny drop where {condition}", **arguments) == "ask"
    assert judged(f"ask drop where {condition}", **arguments) == "ask"
    assert judged(f"allow drop where {condition}", **arguments) == "ask"


def test_a_rule_for_every_tool_is_about_those_that_have_the_argument() -> None:
    assert judged('deny * where path matches "/etc/*"', table="t") == "allow"
    assert judged("deny * where force is true", table="t", force=True) == "deny"


@pytest.mark.parametrize(
    "text",
    [
        'deny drop where table is "a" and force is "b"',
        'deny drop where force is ["a", 1',
        'deny drop where force is {"a": 1, "a": 2}',
        "deny drop where force is",
    ],
)
def test_a_rule_that_would_never_say_anything_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="not understood"):
        Policy([text])


def test_a_rule_on_an_argument_that_the_tool_does_not_have_is_refused_with_those_that_it_has() -> None:
    with pytest.raises(ConfigurationError, match=r"'forec'.* drop does not have.* table, force, columns, limit\."):
        check_rules(["deny drop where forec is true"], [DECLARED])
    with pytest.raises(ConfigurationError, match=r"run_shell does not have.* command, timeout, outside\."):
        check_rules(['deny run_shell where comand matches "rm *"'])
    with pytest.raises(ConfigurationError, match=r"no tool has.* code, "):
        check_rules(["deny * where tabel is x"], [DECLARED])
    check_rules(["deny * where tabel is x", "deny drop where forec is true"])  # its tools are not known yet
