"""The file of rules that a person saved for all notebooks, for embedded hosts, whose log ends with the kernel.

It is separate from the server's log, because code in any kernel can write it: its rules count in embedded hosts only.
The file is opened for each access, because any number of kernels share it.
"""

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from agent_kernel.approvals.rules import Rule
from agent_kernel.errors import ConfigurationError

MOST_RULES = 500
MOST_CHARACTERS = 4000
_SECONDS = 2.0
"""How long to wait for a kernel that has the file locked."""
_SCHEMA = "CREATE TABLE IF NOT EXISTS rules (rule_id TEXT PRIMARY KEY, text TEXT, made_at TEXT, made_by TEXT)"


@dataclass(frozen=True, slots=True)
class UserRule:
    rule_id: str
    text: str
    made_at: str
    made_by: str | None


class UserRules:
    """Reads and writes the file. All methods block on the disk, and raise `ConfigurationError` with what to do if the
    file can't be used."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[UserRule]:
        """All rules, the oldest first. A row that is not a valid rule is skipped, so it allows nothing."""
        if not self.path.exists():
            return []
        with self._opened() as sql:
            rows = sql.execute(
                "SELECT rule_id, text, made_at, made_by FROM rules ORDER BY made_at LIMIT ?", (MOST_RULES,)
            )
            return [UserRule(*row) for row in rows if all(map(_is_text, row[:3])) and _is_rule(row[1])]

    def add(self, rule: UserRule) -> None:
        if len(rule.text) > MOST_CHARACTERS:
            raise ConfigurationError(
                f"A rule of more than {MOST_CHARACTERS} characters is not kept for all notebooks. Choose a shorter one."
            )
        with self._opened() as sql:
            (count,) = sql.execute("SELECT count(*) FROM rules").fetchone()
            if count >= MOST_RULES:
                raise ConfigurationError(
                    f"There are {count} rules for all notebooks; remove some of them first: "
                    "`agent-kernel rules` lists them, `agent-kernel rules remove ID` removes one."
                )
            sql.execute("INSERT INTO rules VALUES (?, ?, ?, ?)", (rule.rule_id, rule.text, rule.made_at, rule.made_by))

    def remove(self, rule_id: str) -> bool:
        """Delete a rule. Returns whether it existed."""
        if not self.path.exists():
            return False
        with self._opened() as sql:
            return sql.execute("DELETE FROM rules WHERE rule_id = ?", (rule_id,)).rowcount > 0

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        try:
            self._make()
            with closing(sqlite3.connect(self.path, timeout=_SECONDS)) as sql, sql:
                sql.execute("PRAGMA synchronous = FULL")
                sql.execute(_SCHEMA)
                yield sql
        except (OSError, sqlite3.Error) as error:
            raise ConfigurationError(
                f"The rules for all notebooks in {self.path} can't be used: {error}. Nothing was done with them. Make "
                "the file readable and writable for yourself, or move it away: a new one has no rules."
            ) from error

    def _make(self) -> None:
        """Create the file with mode 0600. Raises `ConfigurationError` for a file that others own or may write."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            found = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        others = os.name == "posix" and (found.st_uid != os.geteuid() or found.st_mode & 0o022)
        if not stat.S_ISREG(found.st_mode) or others:
            raise ConfigurationError(
                f"{self.path} is not a file that its owner alone may write, so its rules are not used. Run: "
                f"chmod 600 {self.path} (or move it away, if it is another person's: a new one has no rules)."
            )


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_rule(text: str) -> bool:
    try:
        return Rule.parse(text).verb == "allow"
    except ConfigurationError:
        return False
