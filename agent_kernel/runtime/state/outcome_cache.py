"""`OutcomeCache`: outcomes of a conversation's read-only calls, for later calls with the same arguments.

It is in memory only, and holds the outcomes of one version of the kernel's state: with another version all are dropped.
Ages are of the monotonic clock, so that a wall clock that is changed keeps nothing longer.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

MOST_OUTCOMES = 64
MOST_CHARACTERS = 1_000_000
"""Of all outcomes together."""

CallKey = tuple[str, str]
"""A tool's name, and the digest of a call's arguments."""


@dataclass(frozen=True, slots=True)
class StoredOutcome:
    """The outcome of a call that succeeded."""

    result: str
    """As the model was told."""
    truncated: bool = False
    output_file: str | None = None
    definition: str = ""
    """How its server defined the tool."""


class UnseenChanges:
    """Counts the beginnings and ends of calls that are not read-only and that no kernel sees: those of MCP servers'
    tools and of cells, in all conversations of a runtime. They make another version, as what a kernel sees does."""

    def __init__(self) -> None:
        self.count = 0

    @contextmanager
    def noted(self) -> Iterator[None]:
        self.count += 1
        try:
            yield
        finally:
            self.count += 1


class OutcomeCache:
    """One per conversation, for the runtime's event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._version = ""
        self._outcomes: OrderedDict[CallKey, tuple[StoredOutcome, float]] = OrderedDict()
        """Each with the time at which it was stored, the oldest first."""

    def find(self, key: CallKey, version: str, seconds: float) -> tuple[StoredOutcome, float] | None:
        """The outcome that was stored for such a call less than `seconds` ago, and its age in seconds."""
        self._drop_others(version)
        if key not in self._outcomes:
            return None
        outcome, since = self._outcomes[key]
        age = max(0.0, self._clock() - since)
        return (outcome, age) if age < seconds else None

    def keep(self, key: CallKey, version: str, outcome: StoredOutcome) -> None:
        """`version`: that of the kernel's state before the call began."""
        self._drop_others(version)
        self.forget(key)
        self._outcomes[key] = outcome, self._clock()
        while len(self._outcomes) > MOST_OUTCOMES or self._characters() > MOST_CHARACTERS:
            self._outcomes.popitem(last=False)

    def forget(self, key: CallKey) -> None:
        self._outcomes.pop(key, None)

    def _drop_others(self, version: str) -> None:
        if version != self._version:
            self._outcomes.clear()
            self._version = version

    def _characters(self) -> int:
        return sum(len(outcome.result) for outcome, _ in self._outcomes.values())
