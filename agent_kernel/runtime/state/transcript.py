"""The transcript of a conversation as a run gives it to the model."""

import sqlite3
from collections.abc import Sequence
from typing import Any

from agent_kernel.log.event_rows import START, Position, shown_cards
from agent_kernel.models.base import WireMessage
from agent_kernel.protocol.ids import new_tool_call_id
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.runtime.state.compaction import Compaction, Window, tokens_of, tokens_of_tools
from agent_kernel.runtime.state.history import SYSTEM_PROMPT, History, read_history, read_window, wire_message

LONGEST_ID = 65_536
"""Characters. Some proxies put a signature of thousands into an id, and want it back."""


class Transcript:
    """Filled by `recall`; then changed by `turns` alone."""

    def __init__(self, past: History) -> None:
        self._past = past
        """The cached part of the conversation."""
        self._history: list[WireMessage] = []
        self._window = Window()
        self._call_ids: set[str] = set()
        """The ids that the conversation's calls have had, and the cards of calls that were never finished."""
        self._unwritten: list[dict[str, Any]] = []
        """Tool messages that the model gets and that the next commit of a message writes."""

    @property
    def history(self) -> Sequence[WireMessage]:
        """All that was said, the system prompt first. Empty until `recall`."""
        return self._history

    def recall(
        self, sql: sqlite3.Connection, conversation: int, spec: RunSpec, *, cards_after: Position | None
    ) -> None:
        """Read what was said before. `cards_after` is the place after which the run has shown cards, where it has. For
        `Log.read`."""
        first = {"role": "system", "content": (spec.system or SYSTEM_PROMPT) + spec.instructions.text}
        self._history = [first, *read_history(sql, conversation, self._past, spec.run_id)]
        asked = (call["id"] for message in self._history for call in message.get("tool_calls", ()))
        self._call_ids = {*self._past.call_ids, *asked}
        # In a conversation that has just begun nothing was left out.
        fresh = self._past.upto == START and len(self._history) > 1
        self._window = read_window(sql, conversation) if fresh else self._past.window
        if cards_after is not None:  # cards that were cut off have used ids too
            self._call_ids.update(shown_cards(sql, conversation, spec.run_id, cards_after))

    def past(self, upto: Position) -> History:
        """The history for the next run of the conversation. `upto` is the position of the log."""
        return History(self._history[1:], upto, self._window, frozenset(self._call_ids))

    def add(self, body: dict[str, Any]) -> None:
        """Add a message that is in the log, or on its way there."""
        message = wire_message(body)
        self._history.append(message)
        self._call_ids.update(call["id"] for call in message.get("tool_calls", ()))

    def add_answers(self, bodies: Sequence[dict[str, Any]]) -> None:
        """Add tool messages, which the next commit of a message writes."""
        for body in bodies:
            self.add(body)
            self._unwritten.append(body)

    @property
    def unwritten(self) -> Sequence[dict[str, Any]]:
        return self._unwritten

    def note_written(self) -> None:
        """The tool messages are in the log."""
        self._unwritten.clear()

    def take_back_answers(self) -> list[str]:
        """Remove the tool messages that are not in the log. Returns the ids of their calls."""
        ids = [body["tool_call_id"] for body in self._unwritten]
        del self._history[len(self._history) - len(ids) :]
        self._unwritten.clear()
        return ids

    def call_id(self, wanted: str) -> str:
        """The model's id for a call, or a new one where it sent none, one that can't be kept or shown, or one that this
        conversation has used: several servers count anew in each turn."""
        usable = 0 < len(wanted) <= LONGEST_ID and wanted.isprintable() and wanted not in self._call_ids
        own = wanted if usable else new_tool_call_id()
        self._call_ids.add(own)  # now: its card may be shown and cut off, and the next turn's is another
        return own

    # Its length.

    @property
    def compaction(self) -> Compaction:
        return self._window.compaction

    def compact(self, compaction: Compaction) -> None:
        self._window.change(compaction)

    def messages(self) -> Sequence[WireMessage]:
        """The messages of the next request."""
        return self._window.messages(self._history)

    @property
    def ratio(self) -> float:
        """Tokens by the service's count per estimated token."""
        return self._window.ratio

    def fixed_tokens(self, tools: Sequence[dict[str, Any]]) -> float:
        """The estimate for the system prompt and the tools: the same in each request of a run."""
        return tokens_of(self._history[0]) + tokens_of_tools(tools)

    def tokens(self, tools: Sequence[dict[str, Any]], *, pictures: bool) -> float:
        """The estimate for the next request, before the ratio."""
        return self.fixed_tokens(tools) + self._window.tokens(self._history, pictures=pictures)

    def learn(self, counted: float, estimated: float) -> None:
        """A service has counted a request for which there was an estimate."""
        self._window.learn(counted, estimated)
