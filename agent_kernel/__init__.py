"""An agent for Jupyter notebooks. It works in the user's own kernel, asks before it acts, and leaves a record.

    %load_ext agent_kernel            # %%agent and %agent

    import agent_kernel as ak
    run = ak.Agent(tools=[my_function]).start("prompt")

Floors, from the bottom: `protocol`, `tools`, `approvals`, `log`, `models`, `runtime`, `record`, and on top of them the
hosts (`notebook` here, `agent_kernel_server` beside it). Names are imported on first use, so that importing this
package is cheap.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_kernel.approvals.scripted import ScriptedDecision, answer, approve, deny, edit
    from agent_kernel.notebook.agent import Agent, Budget, Policy, last_run, runs
    from agent_kernel.notebook.run import Run
    from agent_kernel.tools.function import tool
    from agent_kernel.tools.tool import Tool

__all__ = [
    "Agent",
    "Budget",
    "Policy",
    "Run",
    "ScriptedDecision",
    "Tool",
    "__version__",
    "answer",
    "approve",
    "deny",
    "edit",
    "last_run",
    "load_ipython_extension",
    "runs",
    "tool",
    "unload_ipython_extension",
]

_FOR_IPYTHON = {"load_ipython_extension", "unload_ipython_extension"}
_MODULES = {
    "agent_kernel.approvals.scripted": ("ScriptedDecision", "answer", "approve", "deny", "edit"),
    "agent_kernel.notebook.agent": ("Agent", "Budget", "Policy", "last_run", "runs"),
    "agent_kernel.notebook.run": ("Run",),
    "agent_kernel.tools.function": ("tool",),
    "agent_kernel.tools.tool": ("Tool",),
    "agent_kernel.version": ("__version__",),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The names for a notebook's user, without IPython's hooks."""
    return sorted({*__all__} - _FOR_IPYTHON)


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext agent_kernel`: register `%%agent` and `%agent`, and connect to the server."""
    from agent_kernel.notebook.magics import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext agent_kernel`: remove the magics."""
    from agent_kernel.notebook.magics import unload

    unload(shell)
