"""The part of a history that the model gets, and an estimate of the length of the next request.

Each message is measured once, however many requests it is part of.
"""

from collections.abc import Sequence

from agent_kernel.models.base import WireMessage
from agent_kernel.runtime.state.compaction import LEFT_OUT, WHOLE, Compaction, head, tokens_of

_LEAST_RATIO, _MOST_RATIO = 0.4, 4.0
"""Bounds of the ratio between a service's count and the estimate. Beyond them the service counts something else, such
as uncached tokens only."""


class Window:
    """For one conversation. It is passed from run to run with the history."""

    def __init__(self, compaction: Compaction = WHOLE) -> None:
        self.compaction = compaction
        self.ratio = 1.0
        """Tokens by the service's count per estimated token."""
        self.has_gaps = False
        """Whether the history has messages of runs whose cells were run again."""
        self._head: list[WireMessage] | None = None
        self._head_ends = 1
        self._pictures = True
        self._counted = 0
        self._tokens = 0.0

    def messages(self, history: Sequence[WireMessage]) -> Sequence[WireMessage]:
        """The messages of a request. The list only grows at its end until the compaction changes."""
        whole = self.compaction == WHOLE
        said = history if whole else [*history[:1], *self._shortened_head(history), *history[self._head_ends :]]
        return [message for message in said if message["role"] != LEFT_OUT] if self.has_gaps else said

    def change(self, compaction: Compaction) -> None:
        self.compaction = compaction
        self._head = None
        self._counted = 0

    def count_pictures(self, counted: bool) -> None:
        """Whether the model is given the pictures."""
        if counted != self._pictures:
            self._pictures, self._counted = counted, 0

    def tokens(self, history: Sequence[WireMessage]) -> float:
        """The estimate for the messages without the system prompt, before the ratio."""
        if not 0 < self._counted <= len(history):
            shortened = [] if self.compaction == WHOLE else self._shortened_head(history)
            self._tokens = self._sum(shortened)
            self._counted = 1 if self.compaction == WHOLE else self._head_ends
        self._tokens += self._sum(history[self._counted :])
        self._counted = len(history)
        return self._tokens

    def learn(self, counted: float, estimated: float) -> None:
        """A service has counted a request for which there was an estimate."""
        if counted > 0 and estimated > 0:
            self.ratio = min(_MOST_RATIO, max(_LEAST_RATIO, counted / estimated))

    def _sum(self, messages: Sequence[WireMessage]) -> float:
        return sum(tokens_of(message, pictures=self._pictures) for message in messages)

    def _shortened_head(self, history: Sequence[WireMessage]) -> list[WireMessage]:
        if self._head is None:
            self._head, self._head_ends = head(history, self.compaction)
        return self._head
