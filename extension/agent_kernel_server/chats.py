"""`Chats`: starts each message of an AI SDK page once, however often it is sent."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from weakref import WeakValueDictionary

REMEMBERED = 1_000
"""Messages that are remembered until the log has them, which is when their run begins."""


class Chats:
    """One per server. The log knows the messages of runs that have begun; this knows those that were just sent."""

    def __init__(self) -> None:
        self._runs: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._starting: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def start_once(self, chat_id: str, message_id: str, start: Callable[[], Awaitable[str]]) -> str:
        """The id of the message's run, which is started if it was not before."""
        async with self._starting.setdefault(chat_id, asyncio.Lock()):
            known = self._runs.get((chat_id, message_id))
            if known is None:
                known = self._runs[chat_id, message_id] = await start()
                while len(self._runs) > REMEMBERED:
                    self._runs.popitem(last=False)
            return known

    def run_of(self, chat_id: str, message_id: str) -> str | None:
        """The run of a message that was started; `None` where this server has not started it."""
        return self._runs.get((chat_id, message_id))

    def forget(self, chat_id: str) -> None:
        """The chat was deleted; another one may get its id."""
        for key in [key for key in self._runs if key[0] == chat_id]:
            del self._runs[key]

    def newest(self, chat_id: str) -> tuple[str, str] | None:
        """The newest message that was started in a chat, and its run."""
        found = [(message_id, run_id) for (chat, message_id), run_id in self._runs.items() if chat == chat_id]
        return found[-1] if found else None
