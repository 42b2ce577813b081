"""Describes the model's environment to it: the notebook, the user's variables and the last cells."""

import platform
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from IPython.core.interactiveshell import InteractiveShell

from agent_kernel.notebook.context.told_cells import RanCell, describe_cells
from agent_kernel.notebook.inspect import Describer, user_variables
from agent_kernel.protocol.kernel import CELLS_OPEN, FOLDER_OPEN, VARIABLES_OPEN, EnvironmentDescribed

_PLACE_CHARACTERS = 1_500
_VARIABLES = 40
_VARIABLE_CHARACTERS = 1_800


def describe_environment(shell: InteractiveShell, path: str | None, cells: Sequence[RanCell]) -> EnvironmentDescribed:
    """A text of at most 16,000 characters. `path` is the notebook's, where it is known; `cells` are what ran last.

    Safe in any thread and while the main thread is busy: it runs none of the user's code.
    """
    place = f"the notebook {path}" if path else "a notebook or script with no known path"
    where = f"You work in {place}, with Python {platform.python_version()}{FOLDER_OPEN}{Path.cwd()}."
    parts = [where[:_PLACE_CHARACTERS], _variables(shell)]
    told = describe_cells(cells)
    if told.text:
        parts.append(CELLS_OPEN + told.text)
    return EnvironmentDescribed(text="\n\n".join(parts), cells=told.cells)


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
