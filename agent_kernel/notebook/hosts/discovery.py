"""Decides which host a run has: the server that serves this kernel, or a runtime in this process.

A server that started the kernel is known by the environment. One that reaches the kernel through a gateway is not: the
kernel asks for it from `%load_ext` on, and the server answers through the link.
"""

import functools
import threading
import time
from typing import Any

from agent_kernel.notebook.hosts.served import ServedHost
from agent_kernel.notebook.kernel.environment import is_attended, is_behind_gateway, is_served, kernel_of
from agent_kernel.notebook.kernel.run_state import RunHost
from agent_kernel.notebook.kernel.state import KernelState
from agent_kernel.notebook.kernel.to_server import ServerEvents
from agent_kernel.protocol.kernel_events import Hello

ASK_SECONDS = 0.25
ASK_TRIES = 6
"""How often a kernel asks for a server behind a gateway, and the seconds between two tries."""


def host_for(state: KernelState, model: Any) -> RunHost:
    """The server's runtime; or one in this process, where there is no such server or the model is an object."""
    return _served(state) if has_server(state, model) else _embedded(state)


def has_server(state: KernelState, model: Any) -> bool:
    """Whether runs of this model have the server's runtime."""
    by_name = model is None or isinstance(model, str)
    return by_name and (is_served(state.shell) or _is_served_through_gateway(state))


@functools.cache
def _served(state: KernelState) -> RunHost:
    return ServedHost(state)


@functools.cache
def _embedded(state: KernelState) -> RunHost:
    from agent_kernel.notebook.hosts.embedded import EmbeddedHost

    return EmbeddedHost(state)


def look_for_server(state: KernelState) -> None:
    """Begin to ask for a server behind a gateway, where there is a page but no server in the environment. Returns at
    once; for the main thread."""
    kernel = kernel_of(state.shell)
    if kernel is not None and not is_served(state.shell) and is_attended(state.shell):
        _search(state).begin(kernel)


def _is_served_through_gateway(state: KernelState) -> bool:
    """Whether such a server has answered. Where a gateway started this kernel and there is a page, waits a moment for
    the first answer."""
    if not state.served_through_gateway.is_set():
        look_for_server(state)
    _search(state).wait()
    return state.served_through_gateway.is_set()


class _Search:
    """One per kernel process."""

    def __init__(self, answered: threading.Event) -> None:
        self._answered = answered
        self._thread: threading.Thread | None = None
        self._wait_until: float | None = None

    def begin(self, kernel: Any) -> None:
        """For the main thread. Does nothing while a search goes on."""
        if self._answered.is_set() or (self._thread is not None and self._thread.is_alive()):
            return
        if self._wait_until is None and is_behind_gateway():
            self._wait_until = time.monotonic() + ASK_SECONDS * ASK_TRIES
        self._thread = threading.Thread(
            target=self._ask, args=(ServerEvents(kernel),), name="agent-kernel-hello", daemon=True
        )
        self._thread.start()

    def wait(self) -> None:
        if self._wait_until is not None:
            self._answered.wait(max(0.0, self._wait_until - time.monotonic()))

    def _ask(self, events: ServerEvents) -> None:
        for _ in range(ASK_TRIES):
            events.send(Hello())
            if self._answered.wait(ASK_SECONDS):
                return


@functools.cache
def _search(state: KernelState) -> _Search:
    return _Search(state.served_through_gateway)
