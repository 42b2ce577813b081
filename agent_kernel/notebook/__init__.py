"""The executor: everything that runs in the notebook's kernel. Messages run calls by `run_call`.

The functions import when they are called: commands use other modules of this package, outside of a kernel.
"""

import sys
from pathlib import Path
from typing import Any

from agent_kernel import own_imports

_ipython = sys.modules.get("IPython")
if _ipython is not None and _ipython.get_ipython() is not None:  # in a kernel, and not in a command
    own_imports.install(Path.cwd())


def install() -> None:
    """Have this kernel answer the server's requests. Idempotent."""
    from agent_kernel.notebook.kernel.requests import install as install_link

    install_link()


async def run_call(approval_id: str) -> None:
    """Run the approved call in the metadata of the message that is being carried out. A call that has begun is not run
    again. Raises `ValueError` where its arguments are not the approved ones."""
    from agent_kernel.notebook.kernel.requests import run_call as run

    await run(approval_id)


def run_call_blocking(approval_id: str) -> None:
    """As `run_call`, where cells can't await."""
    from agent_kernel.notebook.execution.call_interrupts import run_on_this_loop

    run_on_this_loop(run_call(approval_id))


def load(defaults: dict[str, str], cell_id: str | None = None, source: str = "") -> None:
    """Load the extension where that was not done, before a cell that asks the agent. `defaults` are those of the page
    that runs it, as `%agent config` takes them; the kernel's own win. Raises what the extension raises."""
    from IPython.core.getipython import get_ipython

    from agent_kernel.notebook.kernel.state import kernel_state

    shell: Any = get_ipython()
    if shell.find_cell_magic("agent") is None:
        shell.extension_manager.load_extension("agent_kernel")
    shell.magics_manager.registry["AgentMagics"].take_defaults_of_page(defaults)
    if cell_id is not None:
        kernel_state().cells.name(cell_id, source)
