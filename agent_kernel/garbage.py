"""When Python collects garbage. Imports next to nothing itself."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

THRESHOLDS = (700, 2, 150)
"""How many new objects there are when the collector looks at them, how many such passes there are before one over all
that is younger than the last, and how many of those before one over everything. Python's own are (700, 10, 10). With
them the second kind looks at some 8,000 objects and holds up the event loop of a hundred runs for 4 ms, here for 1.4;
the third holds it up for 25 ms, here a quarter as often. The price is 1.4 MB (docs/performance.md)."""


@contextmanager
def uncollected() -> Iterator[None]:
    """Without the garbage collector, in all threads. An import leaves next to no garbage, but makes so many objects
    that the collector looks at all of the process's several times: 10 to 20 ms each in a kernel, and almost half of
    the time that a server's imports take."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def settle() -> None:
    """For a process that is the host's own, when all is loaded: the collector never looks at that again, which would
    hold up an event loop for 0.2 s, and at younger objects in shorter passes."""
    gc.freeze()
    if sys.version_info < (3, 14):  # since then there is no middle generation, and the numbers mean something else
        gc.set_threshold(*THRESHOLDS)
