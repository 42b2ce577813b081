"""How a conversation's changes get to the log: each all or nothing, in the order in which they were asked for."""

import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar

from agent_kernel.log.events import Mark, mark
from agent_kernel.log.runs import ConversationRow
from agent_kernel.log.store import Log
from agent_kernel.log.transactions import Transaction, Unit
from agent_kernel.protocol.events import LoggedEvent

T = TypeVar("T")


class Commit:
    """A transaction on one conversation."""

    def __init__(self, transaction: Transaction, conversation: ConversationRow) -> None:
        self.sql: sqlite3.Connection = transaction.sql
        self.number = conversation.number
        self._transaction = transaction
        self._conversation_id = conversation.conversation_id

    def emit(self, event: LoggedEvent) -> None:
        self._transaction.append(self.number, self._conversation_id, event)

    def mark(self) -> Mark:
        """Where the conversation is, with what was emitted here."""
        self._transaction.flush()
        return mark(self.sql, self.number)


class Commits:
    """Of one run. Used in the runtime's event loop only."""

    def __init__(self, log: Log, conversation: ConversationRow) -> None:
        self._log = log
        self._conversation = conversation
        self._unawaited: list[Unit] = []

    async def write(self, work: Callable[[Commit], T]) -> T:
        """Run `work` as one transaction, after all that was to be written before it: what that raised, this raises."""
        unit = self._submit(work)
        try:
            result: T = await unit.future
        finally:
            self._forget_done()
        return result

    def write_soon(self, work: Callable[[Commit], None]) -> None:
        """As `write`, for what need not be waited for: the next `write`, or `settled`, raises what this one raised. So
        the outcome of a call is written while the model is asked on; should the process die before, the outcome is
        unknown and the model is asked anew."""
        self._unawaited.append(self._submit(work))

    async def settled(self) -> None:
        """Wait until nothing is on its way to the log. Raises `LogUnavailable` where something did not reach it."""
        if self._unawaited:
            await self.write(lambda _: None)

    def _submit(self, work: Callable[[Commit], Any]) -> Unit:
        return self._log.submit(
            lambda transaction: work(Commit(transaction, self._conversation)), follows=tuple(self._unawaited)
        )

    def _forget_done(self) -> None:
        for unit in self._unawaited:
            if unit.future.done():
                unit.future.exception()  # the write that followed it has raised it
        self._unawaited = [unit for unit in self._unawaited if not unit.future.done()]
