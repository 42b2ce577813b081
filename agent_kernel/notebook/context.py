"""Describes the model's environment to it: the notebook, the user's variables and the last cells."""

import platform
from itertools import islice
from pathlib import Path
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from agent_kernel.notebook.inspect import Describer, user_variables
from agent_kernel.protocol.kernel import CELLS_OPEN, FOLDER_OPEN, VARIABLES_OPEN

MAX_CHARACTERS = 4_000
"""Of the whole description."""
_VARIABLES = 40
_VARIABLE_CHARACTERS = 1_800
_CELLS = 4
_SOURCE_CHARACTERS = 350
_OUTPUT_CHARACTERS = 150


def describe_environment(shell: InteractiveShell, path: str | None) -> str:
    """A text of at most 4,000 characters. `path` is the notebook's, where it is known.

    Safe in any thread and while the main thread is busy: it runs none of the user's code.
    """
    place = f"the notebook {path}" if path else "a notebook or script with no known path"
    parts = [f"You work in {place}, with Python {platform.python_version()}{FOLDER_OPEN}{Path.cwd()}."]
    parts.append(_variables(shell))
    parts.append(_recent_cells(shell))
    return "\n\n".join(part for part in parts if part)[:MAX_CHARACTERS]


def _variables(shell: InteractiveShell) -> str:
    mine = user_variables(shell.user_ns, shell.user_ns_hidden)
    if not mine:
        return "No variables are defined yet."
    lines: list[str] = []
    length, describer = 0, Describer()
    for name, value in islice(mine.items(), _VARIABLES):
        line = f"- {name}: {describer.short(value)}"[:300]
        length += len(line)
        if length > _VARIABLE_CHARACTERS:
            break
        lines.append(line)
    more = len(mine) - len(lines)
    return VARIABLES_OPEN + "\n".join([*lines, *([f"- and {more} more"] if more else [])])


def _recent_cells(shell: InteractiveShell) -> str:
    history: Any = shell.history_manager
    if history is None:
        return ""
    sources: list[str] = list(history.input_hist_raw)
    blocks: list[str] = []
    for number in range(max(1, len(sources) - _CELLS), len(sources)):
        if not sources[number].strip():
            continue
        block = f"[{number}] {_cut(sources[number].strip(), _SOURCE_CHARACTERS)}"
        shown = history.output_hist_reprs.get(number)
        if isinstance(shown, str) and shown.strip():
            block += f"\n  -> {_cut(shown.strip(), _OUTPUT_CHARACTERS)}"
        blocks.append(block)
    return CELLS_OPEN + "\n".join(blocks) if blocks else ""


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."
