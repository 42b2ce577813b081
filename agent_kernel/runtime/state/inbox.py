"""Messages that arrived during a run, for its next model call. The log keeps them too."""

from collections.abc import Iterable

from agent_kernel.log.stored_messages import KeptMessage


class Inbox:
    """Filled and emptied by `turns`; closed by the graph and by `runs` once the run reads it no more."""

    def __init__(self, messages: Iterable[KeptMessage]) -> None:
        self._messages = list(messages)
        self.is_open = True

    def __bool__(self) -> bool:
        return bool(self._messages)

    @property
    def first(self) -> KeptMessage:
        return self._messages[0]

    def add(self, message: KeptMessage) -> None:
        self._messages.append(message)

    def remove(self, message: KeptMessage) -> None:
        self._messages.remove(message)

    def close(self) -> None:
        self.is_open = False
