"""Imports that would make a kernel or a server slow to start, counted where they would happen."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEAVY = {"aiohttp", "httpx", "httpx2", "ipywidgets", "jsonschema", "langchain_core", "langgraph", "openai"}
SERVERS = {"jupyter_server", "agent_kernel_server"}


def modules_after(program: str) -> set[str]:
    """The modules that a fresh Python holds after a program."""
    return printed_by(f"{program}\nimport sys\nprint(*sys.modules)")


def printed_by(program: str) -> set[str]:
    """The words of the last line that a fresh Python prints."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return set(done.stdout.splitlines()[-1].split())


def test_import_agent_kernel_is_a_handful_of_modules() -> None:
    ours = {name for name in modules_after("import agent_kernel") if name.startswith("agent_kernel")}
    assert len(ours) <= 4, ours


def test_load_ext_imports_neither_the_runtime_nor_widgets() -> None:
    shell = "import ipykernel.zmqshell, ipykernel.kernelapp\n"
    shell += "from IPython.core.interactiveshell import InteractiveShell\nshell = InteractiveShell.instance()\n"
    before, after = modules_after(shell), modules_after(f"{shell}shell.run_line_magic('load_ext', 'agent_kernel')")
    assert (HEAVY | SERVERS) & (after - before) == set()


def test_the_server_extension_is_loaded_without_the_model_client_and_the_graph() -> None:
    loaded = modules_after("import jupyter_server.serverapp, agent_kernel_server.app")
    heavy = {"aiohttp", "httpx2", "langchain_core", "langgraph", "mcp", "openai", "starlette"}
    assert loaded & (heavy | {"IPython.core.interactiveshell"}) == set()
