"""The floors of `agent_kernel.notebook`: imports go down, never up, and no modules import each other (HOUSE 2)."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

NOTEBOOK = Path(__file__).parents[2] / "agent_kernel" / "notebook"
PACKAGE = "agent_kernel.notebook"
FLOORS = (
    {"notebook_files", "plain_values"},
    {"tables"},
    {"batch", "record_notebook", "recording", "config", "inspect", "options", "startup", "stats"},
    {"execution"},
    {"context", "tools"},
    {"kernel"},
    {"hosts"},
    {"commands", "model_list", "server_list", "run"},
    {"completion"},
    {"agent"},
    {"magics"},
)
"""Rooms and modules from the bottom to the top. Those of one floor know nothing of each other."""


def name_of(path: Path) -> str:
    parts = path.relative_to(NOTEBOOK).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


MODULES = {name_of(path): path for path in sorted(NOTEBOOK.rglob("*.py")) if path != NOTEBOOK / "__init__.py"}
"""All but the package's own, whose functions are the way in for queued code."""


def imported(path: Path) -> set[str]:
    """The modules of the package that a module imports: at once, in a function, or only for types."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            names |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name.removeprefix(f"{PACKAGE}.") for name in names} & MODULES.keys()


def floor_of(name: str) -> int:
    return next(number for number, names in enumerate(FLOORS) if name.partition(".")[0] in names)


def test_every_module_of_the_notebook_stands_on_a_floor() -> None:
    assert {name.partition(".")[0] for name in MODULES} == set().union(*FLOORS)


def test_imports_inside_the_notebook_go_down() -> None:
    room = {name: name.partition(".")[0] for name in MODULES}
    pairs = [(name, other) for name, path in MODULES.items() for other in imported(path) if room[other] != room[name]]
    assert [f"{name} imports {other}" for name, other in pairs if floor_of(other) >= floor_of(name)] == []


def test_no_modules_of_the_notebook_import_each_other() -> None:
    """Not round about either, and not for types: `prepare` names the modules of a circle."""
    TopologicalSorter({name: imported(path) for name, path in MODULES.items()}).prepare()
