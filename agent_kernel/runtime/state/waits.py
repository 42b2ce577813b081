"""Pending futures of what waits for a person or a client: calls, and whole runs.

The log holds the truth; a future only wakes the one task that waits. So a future is resolved after the decision was
committed, a second resolve is harmless, and a lost future loses nothing.
"""

import asyncio
from typing import Generic, TypeVar

T = TypeVar("T")


class Broker(Generic[T]):
    def __init__(self) -> None:
        self._pending: dict[str, asyncio.Future[T]] = {}

    def expect(self, key: str) -> asyncio.Future[T]:
        """The future that `resolve(key)` will resolve. Make it before the request is shown, so no answer is missed."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._pending[key] = future
        future.add_done_callback(lambda done: self._forget(key, done))
        return future

    def resolve(self, key: str, value: T) -> bool:
        """Wake the task that waits for `key`. False if none does (any more)."""
        future = self._pending.get(key)
        if future is None or future.done():
            return False
        future.set_result(value)
        return True

    def waiting(self) -> list[str]:
        """The keys that are waited for."""
        return list(self._pending)

    def _forget(self, key: str, done: asyncio.Future[T]) -> None:
        if self._pending.get(key) is done:
            del self._pending[key]


class PersonWaits:
    """Waits of a whole run: for a larger budget, or an answer about an unknown outcome. Changed by `turns`; `runs`
    calls `wake` when a run is stopped."""

    def __init__(self) -> None:
        self._asked: Broker[None] = Broker()
        self._answered: set[str] = set()

    @property
    def count(self) -> int:
        return len(self._asked.waiting())

    def expect(self, key: str) -> "asyncio.Future[None]":
        return self._asked.expect(key)

    def answer(self, key: str) -> None:
        """A person has answered about `key`: a pause, or a call whose outcome is unknown."""
        self._answered.add(key)
        self._asked.resolve(key, None)

    def is_answered(self, key: str) -> bool:
        return key in self._answered

    def wake(self) -> None:
        """Let all waiters check the run's state again."""
        for key in self._asked.waiting():
            self._asked.resolve(key, None)
