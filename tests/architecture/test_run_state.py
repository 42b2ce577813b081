"""Each field of a run has writers that its module names; any other change is a method of the run or of its parts."""

import ast
import re
from pathlib import Path

import pytest

from agent_kernel.runtime.state.active_run import WRITERS

RUNTIME = Path(__file__).parents[2] / "agent_kernel" / "runtime"
OUTSIDE = [path for path in sorted(RUNTIME.rglob("*.py")) if path.parent != RUNTIME / "state"]
A_RUN = re.compile(r"(?:self\._)?(?:run|active)\.(?P<field>.*)")
INSIDE_OF_IT = re.compile(r"(?:self\._)?(?:run|active)\.(?:\w+\.)*_")


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(RUNTIME).with_suffix("").parts)


def attributes(path: Path) -> list[ast.Attribute | ast.Subscript]:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return [node for node in nodes if isinstance(node, ast.Attribute | ast.Subscript)]


def written(path: Path) -> set[str]:
    """The fields of a run, or what is reached through them, that a module assigns to or deletes."""
    stores = [ast.unparse(node) for node in attributes(path) if isinstance(node.ctx, ast.Store | ast.Del)]
    return {found["field"] for store in stores if (found := A_RUN.match(store))}


@pytest.mark.parametrize("path", OUTSIDE, ids=module_of)
def test_what_is_outside_the_state_writes_only_its_own_fields_of_a_run_and_reaches_into_no_part(path: Path) -> None:
    assert written(path) == {field for field, writers in WRITERS.items() if module_of(path) in writers}
    assert [ast.unparse(node) for node in attributes(path) if INSIDE_OF_IT.match(ast.unparse(node))] == []


def test_the_writers_of_a_run_are_modules() -> None:
    assert {writer for writers in WRITERS.values() for writer in writers} <= set(map(module_of, OUTSIDE))
