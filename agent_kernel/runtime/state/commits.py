"""The commits of a run: transactions on its conversation, in the order in which they were requested."""

import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar

from agent_kernel.log.event_rows import Position, append_message, current_position
from agent_kernel.log.runs import ConversationRow
from agent_kernel.log.store import Log, Transaction, Unit
from agent_kernel.protocol.events import LoggedEvent, MessageEvent
from agent_kernel.protocol.ids import new_message_id

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

    def mark(self) -> Position:
        """The conversation's position in the log, including the events emitted here."""
        return current_position(self.sql, self.number)


async def commit_to(log: Log, conversation: ConversationRow, work: Callable[[Commit], T]) -> T:
    """Run `work` as one transaction on a conversation, apart from the commits of its run."""
    unit = log.submit(lambda transaction: work(Commit(transaction, conversation)))
    result: T = await unit.future
    return result


class Commits:
    """For one run. Used in the runtime's event loop only."""

    def __init__(self, log: Log, conversation: ConversationRow) -> None:
        self._log = log
        self._conversation = conversation
        self._unawaited: list[Unit] = []

    async def write(self, work: Callable[[Commit], T]) -> T:
        """Run `work` as one transaction, after all earlier ones. Raises the error of an earlier one that failed."""
        unit = self._submit(work)
        try:
            result: T = await unit.future
        finally:
            self._forget_done()
        return result

    def write_soon(self, work: Callable[[Commit], None]) -> None:
        """As `write`, without waiting: the next `write` or `settled` raises the error of this one. A call's outcome is
        written this way while the model is asked again; if the process dies first, the outcome is unknown and the model
        is asked anew."""
        self._unawaited.append(self._submit(work))

    async def settled(self) -> None:
        """Wait until all is written. Raises `LogUnavailable` where something could not be."""
        if self._unawaited:
            await self.write(lambda _: None)

    def _submit(self, work: Callable[[Commit], T]) -> Unit:
        return self._log.submit(
            lambda transaction: work(Commit(transaction, self._conversation)),
            follows=tuple(self._unawaited),
        )

    def _forget_done(self) -> None:
        for unit in self._unawaited:
            if unit.future.done():
                unit.future.exception()  # the write that followed it has raised it
        self._unawaited = [unit for unit in self._unawaited if not unit.future.done()]
