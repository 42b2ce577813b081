"""The interface of contenders, and the tool that all of them call."""

import sqlite3
import time
from contextlib import closing
from itertools import count
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

ENTERED: list[int] = []
"""The times at which the tool was entered, in nanoseconds of the performance counter."""
ENTERED_BY: dict[int, int] = {}
"""The same, the last one by the tool's argument."""
PROSE = " ".join(" ".join(topics.values()).split())
"""Python's manual, because it compresses as text of people and models does."""
_places = count(0, 1_009)
PROBE_SCHEMA = {
    "type": "object",
    "properties": {"x": {"type": "integer"}},
    "required": ["x"],
}
PROBE_WIRE = {
    "type": "function",
    "function": {"name": "probe", "description": "Probe the thing numbered x.", "parameters": PROBE_SCHEMA},
}


def prose(characters: int) -> str:
    """A passage of prose of this many characters, a different one each time."""
    start = next(_places) % (len(PROSE) - characters)
    return PROSE[start : start + characters]


def user_text() -> str:
    return prose(200)


async def probe(x: int) -> str:
    """Probe the thing numbered x."""
    ENTERED.append(time.perf_counter_ns())
    ENTERED_BY[x] = ENTERED[-1]
    return prose(400)


def history(messages: int, prompt: str | None = None) -> list[dict[str, Any]]:
    """A history of about this many messages in finished turns, each with a call of the tool, and then the prompt."""
    turns: list[dict[str, Any]] = []
    for number in range(messages // 4):
        call_id = f"call_h{number:011d}"
        function = {"name": "probe", "arguments": '{"x":1}'}
        turns += [
            {"role": "user", "content": user_text()},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": call_id, "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": call_id, "content": prose(400)},
            {"role": "assistant", "content": prose(500)},
        ]
    return [*turns, {"role": "user", "content": prompt or user_text()}]


def open_database(path: Path) -> sqlite3.Connection:
    """Open SQLite with the durability of our own log: a commit is on disk before it returns."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


class Contender:
    """The base class. A contender implements what its scenarios use. `directory` is empty and its own."""

    def __init__(self, base_url: str, directory: Path) -> None:
        self.base_url = base_url
        self.directory = directory

    async def open(self) -> None:
        """Load what the first request needs."""

    async def close(self) -> None:
        """Close connections and files."""

    async def answer(self, model: str) -> int:
        """One answer, streamed to its reader. Returns how many characters the reader got."""
        raise NotImplementedError

    async def steps(self, model: str) -> None:
        """Run a new conversation to its end, with its tool calls allowed."""
        raise NotImplementedError

    async def pause(self, conversation: str, model: str, messages: int, prompt: str | None = None) -> None:
        """Run up to the approval of the first call, after a history of this many messages and a prompt."""
        raise NotImplementedError

    async def approve(self, conversation: str) -> None:
        """Approve the waiting call and run to the end."""
        raise NotImplementedError

    async def turn(self, conversation: str, model: str) -> None:
        """Run one more turn of a conversation, with its call allowed."""
        raise NotImplementedError

    def bytes_on_disk(self) -> int:
        return sum(map(database_bytes, self.directory.glob("*.sqlite")))


def database_bytes(path: Path) -> int:
    """The bytes of a database, including pages in its write-ahead log."""
    with closing(sqlite3.connect(path)) as connection:
        (count,) = connection.execute("PRAGMA page_count").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    return int(count * size)
