"""Turns the value that a tool returns into text for the model."""

import contextlib
import json
import sys
from collections.abc import AsyncGenerator, Generator
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

MOST_ITEMS = 10_000
"""How many values of a generator are shown: one may be endless."""
_MORE = f"[The tool gave more than {MOST_ITEMS:,} values. It was ended here.]\n"


class ToolText(str):
    """A result that is the whole text for the model: the call's live output is part of it, and not added again."""


def value_text(value: Any, shell: InteractiveShell) -> str:
    """A string as it is; JSON if the value can be JSON, else its representation.

    A value with a rich display (a table, a figure) is shown as an output of the call, and gives "" here: the model gets
    the text of that output.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    formatter: Any = shell.display_formatter
    if not isinstance(value, bool | int | float | list | tuple | dict):
        data, metadata = formatter.format(value)
        if set(data) - {"text/plain"}:
            display(data, metadata=metadata, raw=True)
            return ""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return repr(value)


def collect(generator: Generator[Any, Any, Any], shell: InteractiveShell) -> Any:
    """Show each value of a generator as it comes, one a line. Returns the generator's return value."""
    with contextlib.closing(generator):
        for _ in range(MOST_ITEMS):
            try:
                item = next(generator)
            except StopIteration as end:
                return end.value
            _show(item, shell)
        sys.stdout.write(_MORE)
        return None


async def collect_async(generator: AsyncGenerator[Any, Any], shell: InteractiveShell) -> None:
    """As `collect`."""
    async with contextlib.aclosing(generator):
        number = 0
        async for item in generator:
            if number == MOST_ITEMS:
                sys.stdout.write(_MORE)
                return
            _show(item, shell)
            number += 1


def _show(item: Any, shell: InteractiveShell) -> None:
    text = value_text(item, shell)
    if text:
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
