"""Waits for people: of a whole run, for a larger budget or an answer about an unknown outcome."""

import asyncio

from agent_kernel.approvals.broker import Broker


class PersonWaits:
    """Changed by `turns`; `runs` calls `wake` when a run is stopped."""

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
