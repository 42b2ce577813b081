"""Recognises faults of the log's file. Callers of the log see all of them as `LogUnavailable`."""

import sqlite3

import orjson

from agent_kernel.errors import SERVER_AGAIN, LogUnavailable

ADVICE = (
    f"Stop {SERVER_AGAIN}, move the log and the files beside it away (agent-kernel.sqlite*), and start it again: "
    "a new log starts. `agent-kernel doctor` says what is wrong with it."
)
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


class Unreadable(ValueError):
    """A stored text that was changed or cut off. The message completes a sentence."""


def is_damage(error: BaseException) -> bool:
    """Whether SQLite found that the file is not a whole database."""
    return isinstance(error, sqlite3.DatabaseError) and getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED


def explained(error: BaseException) -> BaseException:
    """`LogUnavailable`, with what to do about it, if the log's file is at fault; any other error unchanged."""
    if isinstance(error, Unreadable | orjson.JSONDecodeError):
        message = f"Agent Kernel's log holds something that can't be read ({error}). Nothing is done with it. {ADVICE}"
    elif is_damage(error):
        message = f"Agent Kernel's log is damaged ({error}). Nothing is done without it. {ADVICE}"
    elif isinstance(error, sqlite3.OperationalError):
        message = (
            f"Agent Kernel's log can't be written ({error}). Nothing is done without it: "
            "free space on the disk, or make the directory writable."
        )
    else:
        return error
    unavailable = LogUnavailable(message)
    unavailable.__cause__ = error
    return unavailable
