"""Finds the effects of SQL statements, and of texts for pandas' `query` and `eval`."""

import re
from collections.abc import Iterator

from agent_kernel.tools.review.effects import words
from agent_kernel.tools.review.findings import Finding

_LONGEST = 10_000
"""The most characters of a statement that are read."""
_SHOWN = 1_000
EXECUTES = words("execute executemany executescript exec_driver_sql")
"""Methods of any object whose text is a statement."""
METHODS = EXECUTES | words("sql query to_sql raw")
READERS = words("pandas.read_sql pandas.read_sql_query polars.read_database duckdb.sql duckdb.query")
"""Functions whose first argument is a statement, which may also write."""

_CHANGE = re.compile(
    r"\b(?:insert\s+(?:or\s+\w+\s+)?(?:into|overwrite)|update\s+\S+\s+set|delete\s+from|replace\s+into|merge\s+into|"
    r"(?:drop|alter|create|truncate)\s+(?:or\s+\w+\s+)?(?:\w+\s+){0,2}"
    r"(?:table|view|database|schema|index|function|user|role|sequence|trigger|type|procedure|column|extension)|"
    r"truncate\s+\w|grant\s+\w+(?:\s*,\s*\w+)*\s+(?:on|to)|revoke\s+\w+\s+(?:on|from)|into\s+(?:outfile|dumpfile)|"
    r"copy\s+\S+\s+(?:to|from)|attach\s+database|vacuum|drop\s+owned)\b",
    re.IGNORECASE,
)
_QUESTION = re.compile(r"\s*[(]*\s*(?:select|with|show|describe|explain|from)\b", re.IGNORECASE)
_CONNECTION = re.compile(
    r"(?i)(?:^|[._])(?:con|conn|connection|cur|cursor|db|engine|session|client|database|bq|tx)\d?$"
)
_ROWS = re.compile(r"\.(?:query|filter|filter_by|exclude)\b|\b[A-Z]\w*\.objects\b")
"""Code before a method that selects rows of a database."""
_TABLE_CALLS = re.compile(r"__|@\s*\w[\w.]*\s*\(")
"""A call of a user's function in a text for a table's `query` or `eval`."""
_CALLS = re.compile(r"__|@|\.\w+\s*\(|import")
"""A call in a text for `pandas.eval`, which sees its caller's variables."""


def changes(statement: str) -> Iterator[Finding]:
    if _CHANGE.search(statement[:_LONGEST]):
        yield "Changes a database:", statement[:_SHOWN].strip()


def is_connection(receiver: str) -> bool:
    return _CONNECTION.search(receiver[-100:]) is not None


def changes_by_name(method: str, receiver: str, *, has_arguments: bool) -> bool:
    """The effects of methods without a text: `connection.commit()`, `session.query(Order).delete()`,
    `shop.orders.drop()`."""
    if method == "commit":
        return is_connection(receiver)
    if method == "drop":  # a table in memory needs arguments
        return not has_arguments
    return method in ("delete", "update") and _ROWS.search(receiver[-1_000:]) is not None


def runs_code(text: str, *, whole: bool) -> bool:
    """Whether a text for a table's `query` or `eval` may call functions, which a database's can't."""
    return not _QUESTION.match(text[:_SHOWN]) and (not whole or _TABLE_CALLS.search(text[:_LONGEST]) is not None)


def evaluates_code(text: str, *, whole: bool) -> bool:
    """The same for `pandas.eval`."""
    return not whole or _CALLS.search(text[:_LONGEST]) is not None
