"""What a thread that waits sleeps on."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any, Protocol

import zmq

LONGEST_SECONDS = 0.5
"""On Windows an interrupt is seen between two polls only."""


class Waiter(Protocol):
    """`threading.Event` is one. `set` may be called in any thread."""

    def set(self) -> None: ...

    def clear(self) -> None: ...

    def wait(self, timeout: float | None) -> object:
        """Sleep until it is set, for `timeout` seconds at most, and perhaps shorter."""
        ...


@contextlib.contextmanager
def wake(channel: zmq.Socket[Any] | None = None) -> Iterator[Waiter]:
    """One that is also set while there is something to read on `channel`."""
    if channel is None:
        yield threading.Event()
        return
    ours, others = socket.socketpair()
    with ours, others:
        ours.setblocking(False)
        others.setblocking(False)
        yield _ChannelWaiter(channel, ours, others)


class _ChannelWaiter:
    def __init__(self, channel: zmq.Socket[Any], ours: socket.socket, others: socket.socket) -> None:
        self._ours = ours
        self._others = others
        self._poller = zmq.Poller()
        self._poller.register(channel, zmq.POLLIN)
        self._poller.register(ours.fileno(), zmq.POLLIN)

    def set(self) -> None:
        with contextlib.suppress(BlockingIOError):  # so full of these that it is set
            self._others.send(b"\0")

    def clear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._ours.recv(4096):
                pass

    def wait(self, timeout: float | None) -> object:
        seconds = LONGEST_SECONDS if timeout is None else min(timeout, LONGEST_SECONDS)
        return self._poller.poll(round(seconds * 1000))
