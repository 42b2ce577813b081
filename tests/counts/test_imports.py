"""Imports that would make a kernel or a server slow to start, counted where they would happen."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = {"aiohttp", "httpx", "httpx2", "jsonschema", "langchain_core", "langgraph", "openai", "nh3", "markdown_it"}
SERVERS = {"jupyter_server", "agent_kernel_server"}


def modules_after(program: str) -> set[str]:
    """The modules that a fresh Python holds after a program."""
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return set(done.stdout.splitlines()[-1].split())


def test_import_agent_kernel_is_a_handful_of_modules() -> None:
    ours = {name for name in modules_after("import agent_kernel") if name.startswith("agent_kernel")}
    assert len(ours) <= 4, ours


def test_load_ext_brings_nothing_heavy_into_the_kernel() -> None:
    shell = "from IPython.core.interactiveshell import InteractiveShell\nshell = InteractiveShell.instance()\n"
    before, after = modules_after(shell), modules_after(f"{shell}shell.run_line_magic('load_ext', 'agent_kernel')")
    assert (HEAVY | SERVERS) & (after - before) == set()


def test_the_server_extension_is_loaded_without_the_model_client_and_the_graph() -> None:
    loaded = modules_after("import jupyter_server.serverapp, agent_kernel_server.app, agent_kernel_server.handlers")
    assert (
        loaded & {"aiohttp", "httpx2", "langchain_core", "langgraph", "openai", "IPython.core.interactiveshell"}
        == set()
    )


@pytest.mark.parametrize(
    "module", ["agent_kernel.runtime.runtime", "agent_kernel.record", "agent_kernel.tools.registry"]
)
def test_the_core_is_imported_without_the_model_client_and_the_graph(module: str) -> None:
    assert modules_after(f"import {module}") & {"aiohttp", "httpx2", "langchain_core", "langgraph", "openai"} == set()
