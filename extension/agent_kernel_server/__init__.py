"""The Jupyter server extension of Agent Kernel: it hosts the runtime and links it to the server's kernels."""

from typing import Any

from agent_kernel.version import __version__


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    from agent_kernel_server.app import AgentKernelServer

    return [{"module": "agent_kernel_server", "app": AgentKernelServer}]


__all__ = ["__version__", "_jupyter_server_extension_points"]
