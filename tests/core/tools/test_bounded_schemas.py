"""A tool's JSON Schema and a model's arguments can't hold the server: comparing them takes bounded time."""

from typing import Any

import pytest

from agent_kernel.errors import InvalidArguments, ToolDeclarationError
from agent_kernel.tools import validation
from agent_kernel.tools.declaration import ToolDeclaration
from agent_kernel.tools.registry import ToolRegistry
from tests.cpu import bounded

CATASTROPHIC = r"^(a+)+$"
"""Python's own engine takes some 2 ** 40 steps to find that forty letters and a mark do not match."""
SECONDS = 1.0


def offered(parameters: dict[str, Any]) -> ToolRegistry:
    """A registry whose tool has been offered to a model, so its schema was looked at."""
    registry = ToolRegistry([ToolDeclaration("t", "Do.", {"type": "object", **parameters})])
    registry.openai_format()
    return registry


def check(parameters: dict[str, Any], arguments: dict[str, Any]) -> str | None:
    """The fault of the arguments, which is found in bounded CPU time."""
    registry = offered(parameters)

    def fault() -> str | None:
        try:
            registry.validate("t", arguments)
        except InvalidArguments as error:
            return str(error)
        return None

    return bounded(SECONDS + validation.CPU_SECONDS, fault)


def text(**rules: Any) -> dict[str, Any]:
    return {"properties": {"x": {"type": "string", **rules}}}


@pytest.mark.parametrize("pattern", [CATASTROPHIC, r"^(a|aa)+$", r"(x+x+)+y", r"^([a-z]+\s?)*$"])
def test_a_pattern_that_is_catastrophic_elsewhere_answers_at_once(pattern: str) -> None:
    letter = "x" if "x" in pattern else "a"
    assert "does not match" in str(check(text(pattern=pattern), {"x": letter * 100_000 + "!"}))


def test_names_of_parameters_are_matched_the_same_way() -> None:
    name = "a" * 5_000 + "!"
    by_pattern = {"patternProperties": {CATASTROPHIC: {"type": "integer"}}, "additionalProperties": False}
    assert "no such parameter" in str(check(by_pattern, {name: 1}))
    assert check(by_pattern, {"aaa": 1}) is None
    assert "must be integer" in str(check(by_pattern, {"aaa": "one"}))


def test_patterns_mean_what_json_schema_says() -> None:
    assert check(text(pattern="b.d"), {"x": "abcde"}) is None, "a pattern may be found anywhere"
    assert "does not match" in str(check(text(pattern="^b"), {"x": "abc"}))
    assert check({"properties": {"x": {"pattern": "^b", "type": ["string", "integer"]}}}, {"x": 1}) is None
    mail = r"^[^\s@]+@[^\s@]+\.[^\s@]+$"
    assert check(text(pattern=mail), {"x": "ada@example.org"}) is None


@pytest.mark.parametrize("pattern", [r"^(?=.*a)b", r"(a)\1", "((a{500}){500}){500}", "(", r"(?<!x)y"])
def test_a_pattern_that_has_no_such_bound_is_refused_before_the_tool_is_offered(pattern: str) -> None:
    with pytest.raises(ToolDeclarationError, match=r"'t' can't be offered"):
        offered(text(pattern=pattern))


def test_a_part_of_a_schema_that_names_another_validator_is_refused() -> None:
    own = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "string", "pattern": CATASTROPHIC}
    with pytest.raises(ToolDeclarationError, match=r"a \$schema of its own"):
        offered({"properties": {"x": own}})


def test_a_schema_that_names_itself_and_refers_to_itself_keeps_its_bound() -> None:
    tree = {"type": "string", "pattern": CATASTROPHIC}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "properties": {"x": tree, "in": {"$ref": "#"}},
    }
    assert "does not match" in str(check(schema, {"in": {"in": {"x": "a" * 50_000 + "!"}}}))


def test_references_that_multiply_end_in_a_refusal() -> None:
    definitions: dict[str, Any] = {
        f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]} for n in range(40)
    }
    definitions["d40"] = {"type": "integer"}
    schema = {"properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": definitions}
    assert "take too long to check" in str(check(schema, {"x": "no"}))


def test_formats_that_python_checks_are_checked_and_others_are_notes() -> None:
    assert "is not a 'date'" in str(check(text(format="date"), {"x": "tomorrow"}))
    assert check(text(format="uri"), {"x": "http://" + "%" * 100_000}) is None
