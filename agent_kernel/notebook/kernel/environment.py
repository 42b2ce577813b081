"""The process that this code runs in: its kernel, its server, its notebook, and whether a person can be asked."""

import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from jupyter_core.paths import jupyter_config_dir, jupyter_data_dir

from agent_kernel.errors import ConfigurationError

OLDEST_IPYKERNEL = 7


def kernel_of(shell: InteractiveShell) -> Any | None:
    """The kernel, or `None` in plain IPython."""
    return getattr(shell, "kernel", None)


def message_of(shell: InteractiveShell) -> dict[str, Any]:
    """The message that this thread carries out; empty in plain IPython."""
    kernel = kernel_of(shell)
    message: dict[str, Any] = kernel.get_parent("shell") if kernel is not None else {}
    return message


def content_of(shell: InteractiveShell) -> dict[str, Any]:
    """The content of the message that this thread carries out."""
    return message_of(shell).get("content") or {}


def in_thread_of_cells() -> bool:
    """Whether the kernel runs cells in this thread, so that what it shows stands in its cell: the main thread, or a
    subshell's."""
    thread, subshells = threading.current_thread(), sys.modules.get("ipykernel.subshell")  # none in plain IPython
    return thread is threading.main_thread() or (subshells is not None and isinstance(thread, subshells.SubshellThread))


def check_version(shell: InteractiveShell) -> None:
    """Raises `ConfigurationError` in a kernel of ipykernel before 7, which has no parent of its own for each task."""
    version: str = getattr(sys.modules.get("ipykernel"), "__version__", "")
    if kernel_of(shell) is not None and version and int(version.partition(".")[0]) < OLDEST_IPYKERNEL:
        raise ConfigurationError(
            f"Agent Kernel needs ipykernel {OLDEST_IPYKERNEL} or newer, and this kernel has {version}. Run "
            "`%pip install --upgrade ipykernel`, then restart the kernel (in JupyterLab: Kernel > Restart Kernel)."
        )


def notebook_path(from_server: str | None = None, environ: Mapping[str, str] = os.environ) -> str | None:
    """The notebook's path. The server's is preferred: the one in the environment dates from the kernel's start, and is
    stale after a rename."""
    return from_server or environ.get("JPY_SESSION_NAME")


def is_served(shell: InteractiveShell) -> bool:
    """Whether a server with the extension started this kernel.

    The extension puts its process id into the environment. All that the server starts inherits it, terminals too, so
    it counts only where it is the id of the process that started this kernel.
    """
    server = os.environ.get("AGENT_KERNEL_SERVER_PID")
    return kernel_of(shell) is not None and bool(server) and server == os.environ.get("JPY_PARENT_PID")


def is_behind_gateway(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a gateway started this kernel: Kernel Gateway and Enterprise Gateway say so to each of theirs."""
    return "KERNEL_GATEWAY" in environ


def is_attended(shell: InteractiveShell) -> bool:
    """Whether the current request came from a page or a console that can answer.

    nbclient, nbval and papermill send `allow_stdin: false`.
    """
    return bool(content_of(shell).get("allow_stdin", False))


def own_instructions_folder() -> Path:
    """Where the user's own AGENTS.md and skills are, for all notebooks."""
    return Path(jupyter_config_dir()) / "agent-kernel"


def user_rules_path() -> Path:
    """The file of the user's rules for kernels that have no server with the extension."""
    return Path(jupyter_data_dir()) / "agent-kernel" / "rules-of-kernels.sqlite"
