"""Imports that are not slowed down by the garbage collector. Imports next to nothing itself."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
