"""What a model hears about the arguments it sent, what text an approval is bound to, and that checking is bounded."""

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


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        ('{"code": "1"', "not valid JSON"),
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


@pytest.mark.parametrize(
    ("name", "arguments", "fault"),
    [
        ("python", {}, r"no tool 'python'.*run_python, inspect_variables"),
        ("read_file", {}, r"^arguments: 'path' is a required property\."),
        ("read_file", {"path": 3}, r"^path: 3 is not of type 'string'\."),
        ("read_file", {"path": "a", "line": 3}, r"'line' was unexpected.*The parameters of read_file are: path, "),
        ("inspect_variables", {"names": ["a", 4]}, r"^names\.1: 4 is not of type 'string'\."),
    ],
)
def test_the_message_names_the_field_and_what_is_wrong(name: str, arguments: dict[str, Any], fault: str) -> None:
    with pytest.raises(InvalidArguments, match=fault):
        registry.validate(name, arguments)


@pytest.mark.parametrize("path", ["data/x.csv", ".", "{root}/data"])
def test_reading_in_the_notebooks_folder_is_allowed(tmp_path: Path, path: str) -> None:
    """What asks is in tests/security/test_ways_around.py."""
    (tmp_path / "data").mkdir()
    assert builtin_verdict("read_file", {"path": path.format(root=tmp_path)}, tmp_path).approval == "allow"
    for name in ("list_files", "inspect_variables", "ask_user"):
        assert builtin_verdict(name, {}, tmp_path).approval == "allow"


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


BY_PATTERN = {"patternProperties": {CATASTROPHIC: {"type": "integer"}}, "additionalProperties": False}
OWN = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
ITSELF = {**OWN, "properties": {"x": {"type": "string", "pattern": CATASTROPHIC}, "in": {"$ref": "#"}}}
MULTIPLY: dict[str, Any] = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
MULTIPLY["d40"] = {"type": "integer"}


@pytest.mark.parametrize(
    ("schema", "arguments", "fault"),
    [
        (BY_PATTERN, {"a" * 5_000 + "!": 1}, "was unexpected"),
        (text(pattern="b.d"), {"x": "abcde"}, None),  # it may be found anywhere
        (ITSELF, {"in": {"in": {"x": "a" * 50_000 + "!"}}}, "does not match"),
        ({"properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": MULTIPLY}, {"x": "no"}, "take too long to check"),
        (text(format="uri"), {"x": "http://" + "%" * 100_000}, None),  # a note only
    ],
)
def test_a_schema_means_what_json_schema_says_and_is_checked_in_time(
    schema: dict[str, Any], arguments: dict[str, Any], fault: str | None
) -> None:
    found = check(schema, arguments)
    assert found is None if fault is None else fault in str(found)


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ({"type": "array"}, "type object"),
        ({"properties": {"a": {}}}, "'a' has no type"),
        ({"properties": {"a": {"type": "text"}}}, "not a JSON Schema"),
        ({"properties": {"a": {"$ref": "http://example.org/x"}}}, "within the schema"),
        ({"properties": {"x": {**OWN, "type": "string", "pattern": CATASTROPHIC}}}, r"a \$schema of its own"),
        *(
            (text(pattern=unbounded), "'t' can't be offered")
            for unbounded in (r"^(?=.*a)b", "((a{500}){500}){500}", "(")
        ),
    ],
)
def test_a_schema_that_is_faulty_or_has_no_bound_is_refused_before_a_model_sees_it(
    schema: dict[str, Any], fault: str
) -> None:
    with pytest.raises(ToolDeclarationError, match=fault):
        offered(schema)
