"""What a model or its server writes is read in time that is proportional to its length."""

import json

import pytest

from agent_kernel.models.redaction import scrub
from agent_kernel.tools.review.preview import preview, warnings
from tests.cpu import bounded

SECONDS = 2.0
"""Each of these took minutes where the time grew with the square of the length."""


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("run_python", {"code": " " * 190_000 + "x y"}),
        ("run_python", {"code": "c = '" + "f(1);" * 300 + "'\n" + "".join(f"exec(c + '{n}')\n" for n in range(5_000))}),
        ("run_shell", {"command": "'" + "a\\" * 100_000}),
        ("write_file", {"path": "a/" * 100_000, "content": "b" * 1_000_000}),
    ],
)
def test_a_call_is_read_for_its_warnings_in_time(tool: str, arguments: dict[str, str]) -> None:
    text = json.dumps(arguments)
    bounded(SECONDS, lambda: (warnings(tool, text), preview(tool, text)))


def test_an_error_is_cleaned_of_keys_in_time() -> None:
    bounded(SECONDS, lambda: scrub("sk-" * 100_000, ["a-secret-of-some-length"]))


def test_what_has_the_shape_of_a_key_is_hidden_and_a_name_stays() -> None:
    assert (
        scrub("sk-learn-linear is not sk-Ab1_xyz9 nor Bearer abc", [])
        == "sk-learn-linear is not [API key] nor [API key]"
    )
