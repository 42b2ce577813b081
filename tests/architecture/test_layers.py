"""Every module belongs to one role and stands on one floor: imports point inward and down (ARCHITECTURE.md)."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "agent_kernel"
SERVER = ROOT / "extension" / "agent_kernel_server"
WIDGETS = ROOT / "widgets" / "agent_kernel_widgets"

JUPYTER = {
    *("IPython", "anywidget", "ipykernel", "ipywidgets", "jupyter_client", "jupyter_core", "jupyter_events"),
    *("jupyter_server", "jupyterlab", "nbclient", "nbformat", "tornado", "traitlets", "zmq"),
}
PACKAGES = {"agent_kernel": CORE, "agent_kernel_server": SERVER, "agent_kernel_widgets": WIDGETS}
OURS = set(PACKAGES)
ENTRY_POINTS = {CORE / name for name in ("__init__.py", "cli.py", "doctor.py", "terminal/connection.py")}
"""They reach outward by design, and only when called."""
HEAVY = {
    *("PIL", "aiohttp", "anthropic", "genai_prices", "httpx", "httpx2"),
    *("langchain_core", "langgraph", "mcp", "mcp_types", "openai"),
}

FLOORS: dict[str, list[tuple[str, ...]]] = {
    "agent_kernel": [
        ("protocol", "version"),
        ("errors", "instructions", "own_imports", "own_thread"),
        ("tools",),
        ("approvals",),
        ("log",),
        ("models",),
        ("execution",),
        ("runtime",),
        ("record",),
        ("notebook", "testing", "terminal", "export", "command_line"),
        ("cli", "demo", "doctor"),
    ],
    "agent_kernel.runtime": [
        ("defaults",),
        ("settings", "tasks"),
        ("state",),
        ("clients.feed", "clients.snapshot"),
        ("tool_calls",),
        ("turns",),
        ("graph",),
        ("runs",),
        ("conversation",),
        ("runtime", "clients"),
    ],
    "agent_kernel.notebook": [
        ("plain_values",),
        ("data_values",),
        ("batch", "config", "inspect", "options", "startup", "stats"),
        ("record_notebook",),
        ("execution",),
        ("context", "offered_tools"),
        ("kernel",),
        ("hosts",),
        ("magic_commands", "model_list", "run"),
        ("completion",),
        ("agent",),
        ("magics",),
    ],
}
"""From the bottom to the top. What stands on one floor may import from it and from those below."""


def modules(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*.py"))


def core_modules() -> list[Path]:
    return [path for path in modules(CORE) if "notebook" not in path.relative_to(CORE).parts[:1]]


def imports(path: Path, *, eager_only: bool = False) -> Iterator[tuple[str, int]]:
    """Names of imported modules with their lines. Eager ones run when the module is imported."""
    for node in _nodes(ast.parse(path.read_text(encoding="utf-8")), eager_only=eager_only):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import hides which layer it reaches"
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def _nodes(tree: ast.AST, *, eager_only: bool) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if eager_only and (isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or _is_for_type_checkers(node)):
            continue
        yield node
        yield from _nodes(node, eager_only=eager_only)


def _is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def offenders(paths: list[Path], forbidden: set[str], *, eager_only: bool = False) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in paths
        for name, line in imports(path, eager_only=eager_only)
        if any(name == root or name.startswith(f"{root}.") for root in forbidden)
    ]


@cache
def named_modules() -> dict[str, Path]:
    found = {}
    for package, directory in PACKAGES.items():
        for path in modules(directory):
            parts = [package, *path.relative_to(directory).with_suffix("").parts]
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imported(module: str) -> dict[str, int]:
    """Our modules that a module imports, anywhere in it, each with the line of the first import."""
    found: dict[str, int] = {}
    for name, line in imports(named_modules()[module]):
        target = name
        while target and target not in named_modules():
            target = target.rpartition(".")[0]
        if target and target != module:
            found.setdefault(target, line)
    return found


def floor_of(module: str, package: str) -> int | None:
    """The number of a module's floor in a package; `None` for the package itself and for what is not in it."""
    if not module.startswith(f"{package}."):
        return None
    rest = module.removeprefix(f"{package}.")
    rooms = {room: number for number, floor in enumerate(FLOORS[package]) for room in floor}
    fitting = [room for room in rooms if rest == room or rest.startswith(f"{room}.")]
    assert fitting or rest in {room.partition(".")[0] for room in rooms}, f"{module} has no floor"
    return rooms[max(fitting, key=len)] if fitting else None


def test_the_core_imports_no_jupyter() -> None:
    inner = [path for path in core_modules() if path not in ENTRY_POINTS]
    assert offenders(inner, JUPYTER) == []
    assert offenders(core_modules(), JUPYTER, eager_only=True) == []


def test_the_core_imports_neither_of_its_hosts_nor_the_client() -> None:
    outward = {"agent_kernel.notebook", "agent_kernel_server", "agent_kernel_widgets"}
    assert offenders([path for path in core_modules() if path not in ENTRY_POINTS], outward) == []
    assert offenders(core_modules(), outward, eager_only=True) == []


def others_than_the_protocol() -> set[str]:
    return {f"agent_kernel.{path.stem}" for path in CORE.iterdir()} - {"agent_kernel.protocol"}


def test_the_protocol_imports_nothing_of_the_rest() -> None:
    assert offenders(modules(CORE / "protocol"), others_than_the_protocol() | OURS - {"agent_kernel"}) == []


def test_the_server_reaches_the_core_but_not_the_executor_or_the_client() -> None:
    assert offenders(modules(SERVER), {"agent_kernel.notebook", "agent_kernel_widgets", "ipykernel", "IPython"}) == []


def test_the_executor_does_not_reach_the_server() -> None:
    assert offenders(modules(CORE / "notebook"), {"agent_kernel_server", "jupyter_server", "tornado.web"}) == []


def test_the_client_knows_the_protocol_and_nothing_else() -> None:
    assert offenders(modules(WIDGETS), others_than_the_protocol() | {"agent_kernel_server"}) == []


@pytest.mark.parametrize("package", FLOORS)
def test_imports_go_down_never_up(package: str) -> None:
    up = []
    for module in named_modules():
        own = floor_of(module, package)
        for target, line in imported(module).items() if own is not None else ():
            other = floor_of(target, package)
            if own is not None and other is not None and other > own:
                up.append(f"{module}:{line} imports {target}")
    assert up == []


def test_no_modules_import_each_other() -> None:
    """Not round about either, and not for types: `prepare` names the modules of a circle."""
    TopologicalSorter({name: imported(name) for name in named_modules()}).prepare()


@pytest.mark.parametrize(
    ("package", "unwanted"),
    [
        ("agent_kernel", HEAVY | JUPYTER | {"pydantic", "jsonschema"}),
        ("agent_kernel_server", HEAVY | {"IPython", "ipykernel", "agent_kernel.notebook"}),
    ],
)
def test_importing_a_package_stays_light(package: str, unwanted: set[str]) -> None:
    program = f"import sys, {package}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert unwanted & set(loaded.stdout.split()) == set()
