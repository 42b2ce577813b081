"""Transactions on one conversation."""

import asyncio
import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar

from agent_kernel.log.event_rows import Position, current_position
from agent_kernel.log.message_rows import append_message
from agent_kernel.log.runs import ConversationRow, save_run
from agent_kernel.log.store import Log, Transaction
from agent_kernel.protocol.events import LoggedEvent, MessageEvent, RunEvent
from agent_kernel.protocol.ids import new_message_id
from agent_kernel.protocol.views import RunView

T = TypeVar("T")


class Commit:
    """A transaction on one conversation."""

    def __init__(self, transaction: Transaction, conversation: ConversationRow) -> None:
        self.sql: sqlite3.Connection = transaction.sql
        self.audited, self.measured = transaction.audited, transaction.measured
        self.number = conversation.number
        self._transaction = transaction
        self._conversation_id = conversation.conversation_id

    def emit(self, event: LoggedEvent) -> None:
        self._transaction.append(self.number, self._conversation_id, event)

    def add_user_message(self, run_id: str, body: dict[str, Any], message_id: str | None = None) -> None:
        """Append a message of the user, and show it."""
        message_id = message_id or new_message_id()
        append_message(self.sql, self.number, message_id, run_id, body)
        self.emit(MessageEvent(run_id=run_id, message_id=message_id, role="user", content=body["content"]))

    def save_run(self, view: RunView) -> None:
        """Write a run's row, and show it."""
        save_run(self.sql, view)
        self.emit(RunEvent(run_id=view.run_id, run=view))

    def position(self) -> Position:
        """The conversation's position in the log, including the events emitted here."""
        return current_position(self.sql, self.number)


def commit_to(log: Log, conversation: ConversationRow, work: Callable[[Commit], T]) -> asyncio.Future[T]:
    """Run `work` as one transaction on a conversation, after all that was queued before it, also if nobody waits."""
    return log.submit(lambda transaction: work(Commit(transaction, conversation)))
