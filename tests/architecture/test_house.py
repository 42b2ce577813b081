"""Small files, small functions, few hooks into other packages."""

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = [ROOT / "agent_kernel", ROOT / "extension/agent_kernel_server", ROOT / "widgets/agent_kernel_widgets"]
MODULE_LINES = 500
FUNCTION_LINES = 60
MOST_HOOKS = 10
"""Modules that use what other packages do not document."""
JUNK_DRAWERS = {"utils.py", "util.py", "helpers.py", "misc.py", "common.py"}


def sources() -> list[Path]:
    return [path for package in PACKAGES for path in sorted(package.rglob("*.py"))]


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end, without the docstring."""
    first = function.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring


def test_a_module_fits_in_the_head_and_is_no_junk_drawer() -> None:
    long = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in sources()}
    assert {path: lines for path, lines in long.items() if lines > MODULE_LINES} == {}
    assert [path for path in long if Path(path).name in JUNK_DRAWERS] == []


def test_a_function_fits_on_a_screen() -> None:
    long = {
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}": body_lines(node)
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and body_lines(node) > FUNCTION_LINES
    }
    assert long == {}


def test_what_other_packages_keep_to_themselves_is_used_in_few_modules_each_with_its_reason() -> None:
    """Ruff's SLF001 holds that no others do."""
    page = (ROOT / "docs/decisions/hooks.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `([\w/]+\.py)` \|", page, re.MULTILINE))
    with (ROOT / "pyproject.toml").open("rb") as file:
        ignores = tomllib.load(file)["tool"]["ruff"]["lint"]["per-file-ignores"]
    assert {path for path, rules in ignores.items() if "SLF001" in rules} <= listed
    assert len(listed) <= MOST_HOOKS
