"""Finds the effects of SQL statements."""

import re
from collections.abc import Iterator

from agent_kernel.tools.review.effects import words
from agent_kernel.tools.review.findings import Finding

_LONGEST = 10_000
"""The most characters of a statement that are read."""
_SHOWN = 1_000
EXECUTES = words("execute executemany executescript exec_driver_sql")
"""Methods of any object whose text is a statement."""
METHODS = EXECUTES | words("sql query eval raw read_sql read_sql_query read_database")

_CHANGE = re.compile(
    r"\b(?:insert\s+(?:or\s+\w+\s+)?(?:into|overwrite)|update\s+\S+\s+set|delete\s+from|replace\s+into|merge\s+into|"
    r"(?:drop|alter|create|truncate)\s+(?:or\s+\w+\s+)?(?:\w+\s+){0,2}"
    r"(?:table|view|database|schema|index|function|user|role|sequence|trigger|type|procedure|column|extension)|"
    r"truncate\s+\w|grant\s+\w+(?:\s*,\s*\w+)*\s+(?:on|to)|revoke\s+\w+\s+(?:on|from)|into\s+(?:outfile|dumpfile)|"
    r"copy\s+\S+\s+(?:to|from)|attach\s+database|vacuum|drop\s+owned)\b",
    re.IGNORECASE,
)
_BY_NAME = re.compile(
    r"(?i:(?:^|[._])(?:con|conn|connection|cur|cursor|db|engine|session)\.commit$)"
    r"|(?:\.(?:query|filter|filter_by|exclude)\b|\b[A-Z]\w*\.objects\b).*\.(?:delete|update)$",
    re.DOTALL,
)
"""Methods without a text: `connection.commit()`, `session.query(Order).delete()`."""


def changes(statement: str) -> Iterator[Finding]:
    if _CHANGE.search(statement[:_LONGEST]):
        yield "Changes a database:", statement[:_SHOWN].strip()


def changes_by_name(function: str) -> bool:
    return _BY_NAME.search(function[-_SHOWN:]) is not None
