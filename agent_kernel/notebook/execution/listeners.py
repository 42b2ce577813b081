"""Listenable: a base for objects on which threads wait for something to happen."""

import contextlib
import threading
from collections.abc import Callable, Iterator


class Listenable:
    def __init__(self, lock: "threading.Lock | threading.RLock") -> None:
        """`lock` is held while listeners come and go, and by callers of `_notify`."""
        self._lock = lock
        self._listeners: set[Callable[[], object]] = set()

    @contextlib.contextmanager
    def listening(self, listener: Callable[[], object]) -> Iterator[None]:
        """Have `listener` called, in any thread, whenever there may be something new."""
        with self._lock:
            self._listeners.add(listener)
        try:
            yield
        finally:
            with self._lock:
                self._listeners.discard(listener)

    def _notify(self) -> None:
        for listener in tuple(self._listeners):
            listener()
