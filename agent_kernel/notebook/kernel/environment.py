"""Where this code runs: in which kernel, served by whom, with somebody there to ask or not."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from IPython.core.interactiveshell import InteractiveShell


def kernel_of(shell: InteractiveShell) -> Any | None:
    """The kernel, or `None` in plain IPython."""
    return getattr(shell, "kernel", None)


def notebook_path(told: str | None = None, environ: Mapping[str, str] = os.environ) -> str | None:
    """The notebook, as its server has `told`: the kernel's own idea, which it has from its start, is stale after a
    rename."""
    return told or environ.get("JPY_SESSION_NAME")


def is_served(shell: InteractiveShell, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a server with the extension started this kernel.

    The extension leaves its process id in the environment. It reaches everything that the server starts, terminals
    too, so it counts only where it is the id of the process that started this kernel.
    """
    server = environ.get("AGENT_KERNEL_SERVER_PID")
    return kernel_of(shell) is not None and bool(server) and server == environ.get("JPY_PARENT_PID")


def is_attended(shell: InteractiveShell) -> bool:
    """Whether the request that is being executed came from a page or a console that can answer.

    nbclient, nbval and papermill send `allow_stdin: false`.
    """
    kernel = kernel_of(shell)
    if kernel is None:
        return False
    content = kernel.get_parent("shell").get("content") or {}
    return bool(content.get("allow_stdin", False))


def hears_while_blocked(shell: InteractiveShell) -> bool:
    """Whether a page's clicks reach this kernel while a cell holds its main thread (ipykernel 7: subshells)."""
    features = getattr(kernel_of(shell), "kernel_info", {}).get("supported_features", [])
    return "kernel subshells" in features


def user_rules_path() -> Path:
    """Where rules for all notebooks are kept by kernels that have no server with the extension."""
    from jupyter_core.paths import jupyter_data_dir

    return Path(jupyter_data_dir()) / "agent-kernel" / "rules-of-kernels.sqlite"
