"""The imports of a brain in this process, before the first run needs them: a second of work, several under load."""

import threading

from agent_kernel.notebook.kernel.environment import is_served, somebody_is_there
from agent_kernel.notebook.hosts.discovery import was_found
from agent_kernel.notebook.kernel.state import Workshop


def warm_up_here(shop: Workshop) -> None:
    """Where a page is there, and no server that runs the brain. Returns at once; for the main thread, after
    `look_for_server`. A headless notebook runs its agent at once, so there is nothing to win."""
    if not is_served(shop.shell) and somebody_is_there(shop.shell):
        threading.Thread(target=_warm_up, args=(shop,), name="agent-kernel-warm-up", daemon=True).start()


def _warm_up(shop: Workshop) -> None:
    if was_found(shop):
        return
    from agent_kernel.models.resolver import warm_up

    warm_up()
