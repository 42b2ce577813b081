"""What a model hears about the arguments it sent, what text an approval is bound to, and that checking is bounded."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.errors import InvalidArguments, ToolDeclarationError
from agent_kernel.tools import validation
from agent_kernel.tools.arguments import canonical, digest, parse
from agent_kernel.tools.builtin.declarations import BUILTIN_TOOLS
from agent_kernel.tools.builtin.places import builtin_verdict
from agent_kernel.tools.declaration import ToolDeclaration
from agent_kernel.tools.registry import ToolRegistry
from tests.cpu import bounded

registry = ToolRegistry(BUILTIN_TOOLS)


@pytest.mark.parametrize("raw", ["", "  ", "null", "{}", '"{}"', '""'])
def test_no_arguments_may_be_written_in_several_ways(raw: str) -> None:
    assert parse(raw) == {}


def test_json_in_a_json_string_is_read() -> None:
    assert parse(json.dumps(json.dumps({"code": "1"}))) == {"code": "1"}


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        ('{"code": "1"', "not valid JSON"),
        ("3", "a number"),
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"a": 1, "a": 2}', "'a' is given twice"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_arguments_that_cannot_be_read_are_refused_with_the_reason(raw: str, fault: str) -> None:
    with pytest.raises(InvalidArguments, match=fault):
        parse(raw)


def test_the_digest_does_not_depend_on_how_the_arguments_were_written() -> None:
    one = canonical(parse('{"b": 1, "a": "\\u00e9"}'))
    other = canonical(parse('{ "a":"é","b":1 }'))
    assert one == other == '{"a":"é","b":1}'
    assert digest(one) == digest(other) != digest(canonical({"a": "é", "b": 2}))
    assert len(digest(one)) == 64


def test_half_a_surrogate_pair_becomes_a_replacement_character() -> None:
    assert canonical(parse('{"a": "x\\ud83dy", "b": "\\ud83d\\ude00"}')) == '{"a":"x\ufffdy","b":"😀"}'
    with pytest.raises(InvalidArguments, match="surrogate"):
        canonical({"a": "\ud83d"})


def test_an_unknown_tool_is_answered_with_the_tools_on_offer() -> None:
    with pytest.raises(InvalidArguments, match=r"no tool 'python'.*run_python, inspect_variables"):
        registry.validate("python", "{}")


@pytest.mark.parametrize(
    ("name", "arguments", "fault"),
    [
        ("read_file", {}, "path is missing."),
        ("read_file", {"path": 3}, "path must be string, not integer."),
        ("read_file", {"path": "a", "line": 3}, "line: there is no such parameter."),
        ("read_file", {"path": "a", "limit": 0}, "limit: 0 is less than the minimum of 1."),
        ("inspect_variables", {"names": ["a", 4]}, "names.1 must be string, not integer."),
    ],
)
def test_the_message_names_the_field_and_what_is_wrong(name: str, arguments: dict[str, Any], fault: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        registry.validate(name, arguments)
    assert str(caught.value).startswith(fault)


def test_at_most_three_faults_are_told_and_the_message_is_bounded() -> None:
    arguments = {"path": "a", "names": [{"x": "y" * 10_000}] * 5000}
    with pytest.raises(InvalidArguments) as caught:
        registry.validate("inspect_variables", arguments)
    assert len(str(caught.value)) < 1000
    assert str(caught.value).count(" must be ") <= 3
    assert "more" in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ({"type": "array"}, "type object"),
        ({"type": "object", "properties": {"a": {}}}, "'a' has no type"),
        ({"type": "object", "properties": {"a": {"type": "text"}}}, "not a JSON Schema"),
        ({"type": "object", "properties": {"a": {"$ref": "http://example.org/x"}}}, "within the schema"),
    ],
)
def test_a_faulty_schema_is_refused_before_a_model_sees_it(schema: dict[str, Any], fault: str) -> None:
    with pytest.raises(ToolDeclarationError, match=fault):
        ToolRegistry([ToolDeclaration("act", "Do it.", schema)]).openai_format()


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ToolDeclarationError, match="Two tools are named 'run_python'"):
        ToolRegistry([*BUILTIN_TOOLS, BUILTIN_TOOLS[0]])


def test_reading_in_the_notebooks_folder_is_allowed_and_all_else_asks(tmp_path: Path) -> None:
    root = tmp_path / "work"
    (root / "data").mkdir(parents=True)
    (root / "out").symlink_to(tmp_path)
    (root / "plain.txt").symlink_to(root / ".env")
    expected = {
        "data/x.csv": "allow",
        ".": "allow",
        str(root / "data"): "allow",
        "data/../../secret": "ask",
        "out/secret": "ask",
        "/etc/passwd": "ask",
        ".env": "ask",
        "plain.txt": "ask",
        "x\0y": "ask",
    }
    for path, approval in expected.items():
        assert builtin_verdict("read_file", {"path": path}, root).approval == approval, path
    assert builtin_verdict("list_files", {}, root).approval == "allow"
    assert builtin_verdict("read_file", {"path": 3}, root).approval == "ask"
    for name in ("run_python", "run_shell", "write_file", "edit_file"):
        assert builtin_verdict(name, {"path": "data/x.csv"}, root).approval == "ask"
    for name in ("inspect_variables", "ask_user"):
        assert builtin_verdict(name, {}, root).approval == "allow"


def test_a_first_check_does_not_wait_for_a_grammar_that_only_iris_need() -> None:
    """That took a second, in every notebook that runs by itself."""
    code = (
        "import sys, importlib.util; from agent_kernel.tools.builtin.declarations import BUILTIN_TOOLS; "
        "from agent_kernel.tools.registry import ToolRegistry\n"
        "assert importlib.util.find_spec('rfc3987_syntax')\n"
        "tools = ToolRegistry(BUILTIN_TOOLS); tools.openai_format(); tools.validate('list_files', '{}')\n"
        "assert {'jsonschema', 'rfc3987_syntax', 'lark'} & set(sys.modules) == {'jsonschema'}\n"
        "import jsonschema  # the user's own use of it still checks them\n"
        "iri = jsonschema.Draft202012Validator({'format': 'iri'}, format_checker=jsonschema.FormatChecker())\n"
        "assert iri.is_valid('https://example.org/\u00e9') and not iri.is_valid('not one')\n"
        "assert not jsonschema.Draft7Validator.FORMAT_CHECKER.conforms('\\\\\\\\', 'iri-reference')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


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
