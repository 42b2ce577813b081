"""The Jupyter server extension of Agent Kernel: it hosts the runtime and links it to the server's kernels."""

from importlib.metadata import PackageNotFoundError, version
from typing import Any

try:
    __version__ = version("agent-kernel")
except PackageNotFoundError:
    __version__ = "unknown"  # run from a source tree that is not installed


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    from agent_kernel_server.app import AgentKernelServer

    return [{"module": "agent_kernel_server", "app": AgentKernelServer}]


__all__ = ["__version__", "_jupyter_server_extension_points"]
