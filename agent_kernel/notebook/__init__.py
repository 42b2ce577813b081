"""The executor: everything that runs in the notebook's kernel. Queued messages run calls by `take` and `take_async`."""

import sys
from pathlib import Path

from agent_kernel import own_imports

_ipython = sys.modules.get("IPython")
if _ipython is not None and _ipython.get_ipython() is not None:  # in a kernel, and not in a command
    own_imports.install(Path.cwd())


def install() -> None:
    """Have this kernel answer the server's requests. Idempotent."""
    from agent_kernel.notebook.kernel.requests import install as install_link

    install_link()


def take(approval_id: str) -> None:
    """Run a deposited call on this thread, the main one. Does nothing if the call was claimed already."""
    from agent_kernel.notebook.kernel.state import kernel_state

    kernel_state().executor.run_next(approval_id)


async def take_async(approval_id: str) -> None:
    """As `take`, for a call that awaits."""
    from agent_kernel.notebook.kernel.state import kernel_state

    await kernel_state().executor.run_next_async(approval_id)
