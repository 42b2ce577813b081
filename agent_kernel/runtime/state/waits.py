"""Waits for people: of a whole run, for a larger budget or an answer about an unknown outcome, and for a page."""

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


class Shown:
    """A flag that is set once a page has shown a conversation. For one event loop. True once it is set.

    Not an `asyncio.Event`: each conversation in memory has one, and an event takes 800 bytes even without waiters.
    """

    __slots__ = ("_came", "_coming")

    def __init__(self) -> None:
        self._came = False
        self._coming: asyncio.Future[None] | None = None

    def __bool__(self) -> bool:
        return self._came

    def set(self) -> None:
        self._came = True
        if self._coming is not None:
            self._coming.set_result(None)
            self._coming = None

    async def wait(self) -> None:
        """Wait until it is set."""
        if self._came:
            return
        if self._coming is None:
            self._coming = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._coming)
