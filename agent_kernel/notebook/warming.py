"""The imports of a runtime in this process, before the first run needs them: a second of work, several under load."""

import threading

from agent_kernel.notebook.hosts.discovery import was_found
from agent_kernel.notebook.kernel.environment import is_attended, is_served
from agent_kernel.notebook.kernel.state import KernelState


def warm_up_here(state: KernelState) -> None:
    """Where a page is there, and no server that runs the runtime. Returns at once; for the main thread, after
    `look_for_server`. A headless notebook runs its agent at once, so there is nothing to win."""
    if not is_served(state.shell) and is_attended(state.shell):
        threading.Thread(target=_warm_up, args=(state,), name="agent-kernel-warm-up", daemon=True).start()


def _warm_up(state: KernelState) -> None:
    if was_found(state):
        return
    from agent_kernel.models.resolver import warm_up

    warm_up()
