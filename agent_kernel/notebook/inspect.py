"""Describes the user's variables without running any of the user's code.

Values whose types belong to the standard library or to the usual data packages are described; of others only the type
is named.
"""

import time
import types
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from agent_kernel.notebook.data_values import columns_of, library_describer
from agent_kernel.notebook.plain_values import SEQUENCES, is_one_of, safe_text, type_name

MAX_VARIABLES = 100
MAX_CHARACTERS = 20_000
MAX_SECONDS = 1.0
"""After this time only the types of the remaining variables are named."""
_SKIPPED = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)
_NAMES_OF_IPYTHON = frozenset({"In", "Out", "exit", "quit", "open", "get_ipython"})


def user_variables(namespace: Mapping[str, Any], hidden: Mapping[str, Any]) -> dict[str, Any]:
    """The user's own variables: no modules, functions, classes or private names, and none of IPython's."""
    return {
        name: value
        for name, value in list(namespace.items())
        if type(name) is str
        and not name.startswith("_")
        and name not in _NAMES_OF_IPYTHON
        and not (name in hidden and hidden[name] is value)
        and not issubclass(type(value), _SKIPPED)  # `isinstance` would ask the value for its `__class__`
    }


def inspect_variables(
    namespace: Mapping[str, Any], hidden: Mapping[str, Any], names: Sequence[str] | None = None
) -> str:
    """A description of the named variables, or of all of the user's, of at most 20,000 characters."""
    describer = Describer()
    if names:
        known = dict(namespace)
        blocks = [
            f"{name}: {describer.describe(known[name])}" if name in known else f"{name}: not defined" for name in names
        ]
    else:
        mine = user_variables(namespace, hidden)
        blocks = [f"{name}: {describer.describe(value)}" for name, value in islice(mine.items(), MAX_VARIABLES)]
        if len(mine) > MAX_VARIABLES:
            blocks.append(f"... and {len(mine) - MAX_VARIABLES} more: {', '.join(islice(mine, MAX_VARIABLES, None))}")
    report = "\n".join(blocks) or "No variables are defined yet."
    if len(report) > MAX_CHARACTERS:
        report = report[:MAX_CHARACTERS] + "\n[... cut: ask for fewer names ...]"
    return report


class Describer:
    """Describes values until its time is up; after that it only names their types."""

    def __init__(self) -> None:
        self._until = time.monotonic() + MAX_SECONDS

    def describe(self, value: Any, *, preview: bool = True) -> str:
        return type_name(value) if time.monotonic() > self._until else describe(value, preview)

    def short(self, value: Any) -> str:
        """One line with type and shape, without a preview of the data."""
        return self.describe(value, preview=False).split("\n", 1)[0]


def describe(value: Any, preview: bool = True) -> str:
    describer = library_describer(type(value)) or _describe_plain
    try:
        return describer(value, preview)
    except Exception as error:  # noqa: BLE001 -- one odd variable must not hide the others
        return f"{type_name(value)} (could not be read: {type_name(error)})"


def column_names(value: Any) -> list[str]:
    """The names of a table's first columns that are texts; empty for other values."""
    columns = columns_of(value)
    return [name for name, _ in columns.first if type(name) is str] if columns is not None else []


def _describe_plain(value: Any, preview: bool) -> str:
    kind = type(value)
    head = type_name(value)
    if is_one_of(kind, (str, bytes, dict, *SEQUENCES)):
        head += f" of length {len(value)}"
    if not preview:
        return head
    text = safe_text(value)
    return head if text == f"<{head}>" else f"{head} = {text[:1_000]}"
