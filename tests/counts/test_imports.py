"""Imports that would make a kernel or a server slow to start, counted where they would happen."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = {"aiohttp", "httpx", "httpx2", "jsonschema", "langchain_core", "langgraph", "openai", "nh3", "markdown_it"}
LATER = {
    *("pydantic", "pydantic_core", "annotated_types", "agent_kernel.notebook.kernel.replies"),
    *("pathspec", "anywidget", "ipywidgets", "tomllib", "agent_kernel.tools.review.python"),
    *("agent_kernel.models.images", "agent_kernel.protocol.events", "agent_kernel.notebook.stats"),
    *("agent_kernel.notebook.execution.executor", "agent_kernel.notebook.execution.undo", "difflib"),
    *("agent_kernel.notebook.model_list", "agent_kernel.approvals.user_rules", "agent_kernel.approvals.rules"),
    *("agent_kernel.runtime.settings", "agent_kernel.approvals.folder_limits", "agent_kernel.protocol.calls"),
    *("agent_kernel.protocol.kernel_questions", "agent_kernel.protocol.lists", "agent_kernel.approvals.policy"),
}
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


def test_load_ext_imports_no_more_than_a_first_prompt_needs() -> None:
    """What carries out the built-in tools comes with their first call, the widgets with the first card."""
    shell = "import ipykernel.zmqshell, ipykernel.kernelapp\n"
    shell += "from IPython.core.interactiveshell import InteractiveShell\nshell = InteractiveShell.instance()\n"
    before, after = modules_after(shell), modules_after(f"{shell}shell.run_line_magic('load_ext', 'agent_kernel')")
    assert (HEAVY | SERVERS | LATER) & (after - before) == set()
    assert len(after - before) <= 66, len(after - before)


def test_load_ext_makes_few_dataclasses() -> None:
    """Each takes half a millisecond to a whole one, more than half of what `%load_ext` takes."""
    made = printed_by(
        "import agent_kernel, IPython\n"
        "agent_kernel.load_ipython_extension(IPython.core.interactiveshell.InteractiveShell.instance())\n"
        "import dataclasses, sys\n"
        "ours = [(name, module) for name, module in sys.modules.items() if name.startswith('agent_kernel')]\n"
        "print(*(f'{name}.{kind}' for name, module in ours for kind, value in vars(module).items()\n"
        "    if dataclasses.is_dataclass(value) and isinstance(value, type) and value.__module__ == name))"
    )
    assert 10 < len(made) <= 21, made


DECLARE = """
import IPython, ipykernel.zmqshell, agent_kernel
shell = IPython.core.interactiveshell.InteractiveShell.instance()
agent_kernel.load_ipython_extension(shell)
import agent_kernel.notebook.hosts.served, agent_kernel_widgets.opened
from agent_kernel.notebook.agent import Agent
from agent_kernel.notebook.context import describe_environment
from agent_kernel.protocol.first_prompt import (
    Declared, EnvironmentDescribed, Hello, RunAnnounced, RunDeclaration, content_of, read_first_request,
)
tools = tuple(tool.declaration for tool in Agent().tools)
content_of(Hello())
read_first_request({"op": "serve"})
content_of(RunAnnounced("run_a", "conv_a"))
read_first_request({"op": "declare", "run_id": "run_a"})
content_of(Declared(RunDeclaration("run_a", "conv_a", "Go.", tools=tools)))
read_first_request({"op": "environment"})
content_of(EnvironmentDescribed(describe_environment(shell, None)))
"""


def test_a_first_prompt_is_sent_and_declared_without_pydantic() -> None:
    """To import it, and to build the models of the wire, took two thirds of `%load_ext`."""
    assert {name for name in modules_after(DECLARE) if name.startswith("pydantic")} == set()


def modules_of_an_idle_server(folder: Path, *, extension: bool) -> set[str]:
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tests.counts.idle_server", str(extension), str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.slow
def test_a_server_whose_user_runs_no_agent_holds_a_handful_of_modules_more(tmp_path: Path) -> None:
    """The runtime and what it is built on are 800 modules and 70 MB."""
    without = modules_of_an_idle_server(tmp_path / "without", extension=False)
    more = modules_of_an_idle_server(tmp_path / "with", extension=True) - without
    foreign = {name for name in more if not name.startswith("agent_kernel")}
    assert foreign <= {"uuid"}, foreign
    assert len(more) <= 30, more


def test_the_server_extension_is_loaded_without_the_model_client_and_the_graph() -> None:
    loaded = modules_after(
        "import jupyter_server.serverapp, agent_kernel_server.app, agent_kernel_server.configuration"
    )
    assert (
        loaded & {"aiohttp", "httpx2", "langchain_core", "langgraph", "openai", "IPython.core.interactiveshell"}
        == set()
    )


@pytest.mark.parametrize(
    "module", ["agent_kernel.runtime.runtime", "agent_kernel.record", "agent_kernel.tools.registry"]
)
def test_the_core_is_imported_without_the_model_client_and_the_graph(module: str) -> None:
    assert modules_after(f"import {module}") & {"aiohttp", "httpx2", "langchain_core", "langgraph", "openai"} == set()
