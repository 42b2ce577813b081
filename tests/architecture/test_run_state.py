"""A run is changed by its own methods only, so that each change has a name and an owner."""

import ast
import re
from pathlib import Path

import pytest

RUNTIME = Path(__file__).parents[2] / "agent_kernel" / "runtime"
OUTSIDE = [path for path in sorted(RUNTIME.rglob("*.py")) if path.parent != RUNTIME / "state"]
A_RUN = re.compile(r"(?:self\._)?(?:run|active)\.")
INSIDE_OF_IT = re.compile(r"(?:self\._)?(?:run|active)\.(?:\w+\.)*_")


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: path.relative_to(RUNTIME).as_posix())
def test_nothing_outside_the_state_assigns_to_a_run_or_reaches_into_its_parts(path: Path) -> None:
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute | ast.Subscript)]
    written = [node for node in nodes if isinstance(node.ctx, ast.Store | ast.Del) and A_RUN.match(ast.unparse(node))]
    reached = [node for node in nodes if INSIDE_OF_IT.match(ast.unparse(node))]
    assert [f"line {node.lineno}: {ast.unparse(node)}" for node in (*written, *reached)] == []
