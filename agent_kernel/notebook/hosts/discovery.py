"""A server that reaches this kernel through a gateway. The environment, which the gateway made, can't tell of it."""

import functools
import threading
import time
from typing import Any

from agent_kernel.notebook.kernel.environment import is_attended, is_served, kernel_of
from agent_kernel.notebook.kernel.link import Link
from agent_kernel.notebook.kernel.state import KernelState
from agent_kernel.protocol.kernel_events import Hello

ASK_SECONDS = 0.25
ASK_TRIES = 6
"""How often a kernel that nobody has told anything says that it is there, and the seconds in between."""


def look_for_server(state: KernelState) -> None:
    """Where a page is there, but no server that the environment tells of: ask for one. Returns at once."""
    kernel = kernel_of(state.shell)
    if kernel is not None and not is_served(state.shell) and is_attended(state.shell):
        _search(state).begin(kernel)


def is_served_from_afar(state: KernelState) -> bool:
    """Whether such a server has answered. The first who asks waits a moment for it; a headless run does not."""
    if not state.told_served.is_set():
        look_for_server(state)
    return was_found(state)


def was_found(state: KernelState) -> bool:
    """Whether such a server has answered, once it has had its time to. For any thread."""
    _search(state).wait()
    return state.told_served.is_set()


class _Search:
    """One per kernel process."""

    def __init__(self, answered: threading.Event) -> None:
        self._answered = answered
        self._thread: threading.Thread | None = None
        self._wait_until: float | None = None

    def begin(self, kernel: Any) -> None:
        """For the main thread. Does nothing while it goes on."""
        if self._answered.is_set() or (self._thread is not None and self._thread.is_alive()):
            return
        if self._wait_until is None:
            self._wait_until = time.monotonic() + ASK_SECONDS * ASK_TRIES
        self._thread = threading.Thread(target=self._ask, args=(Link(kernel),), name="agent-kernel-hello", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        if self._wait_until is not None:
            self._answered.wait(max(0.0, self._wait_until - time.monotonic()))

    def _ask(self, link: Link) -> None:
        for _ in range(ASK_TRIES):
            link.send(Hello())
            if self._answered.wait(ASK_SECONDS):
                return


@functools.cache
def _search(state: KernelState) -> _Search:
    return _Search(state.told_served)
