"""Ports for what the tests start: each is chosen here and bound a moment later, by a kernel or a server.

A port that the system chose may have been given to somebody else by then, as other tests start kernels at the same time
("Address already in use", jupyter_client issue 487). The ones from here are below those that Linux and macOS give by
themselves, and each process has a block of them."""

import functools
import itertools
import socket
import threading
from collections.abc import Iterator

from jupyter_client.connect import LocalPortCache

_FIRST, _END, _BLOCK = 20_000, 32_000, 500
_ONE_AT_A_TIME = threading.Lock()


@functools.cache
def _own_block() -> tuple[socket.socket, Iterator[int]]:
    """A port that is kept bound, so that other processes see that the block is taken, and those behind it, in turn."""
    for first in range(_FIRST, _END, _BLOCK):
        taken = socket.socket()
        try:
            taken.bind(("127.0.0.1", first))
        except OSError:
            taken.close()
        else:
            return taken, itertools.cycle(range(first + 1, first + _BLOCK))
    raise RuntimeError(f"All blocks of ports from {_FIRST} to {_END} are taken.")


def free_port(ip: str = "127.0.0.1") -> int:
    """A port that nobody listens on, and that nobody else is given for the next few hundred calls."""
    with _ONE_AT_A_TIME:  # several threads may start the first kernels, and each would take a block
        _, ports = _own_block()
    for port in itertools.islice(ports, _BLOCK):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as ZMQ and asyncio do
            try:
                probe.bind((ip, port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"No port of this process is free at {ip}.")


class KernelPorts(LocalPortCache):
    """The ports of the kernels that this process starts. The first call of `instance` is what makes it count."""

    def find_available_port(self, ip: str) -> int:
        return free_port(ip)
