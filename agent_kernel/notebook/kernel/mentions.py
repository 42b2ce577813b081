"""Reads what a prompt mentions: variables, files of the notebook's folder, cells. It runs none of the user's code."""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from IPython.core.interactiveshell import InteractiveShell

from agent_kernel.errors import ToolFailed
from agent_kernel.notebook.context.told_cells import describe_cell
from agent_kernel.notebook.inspect import inspect_variables, user_variables
from agent_kernel.notebook.kernel.ran_cells import RanCells
from agent_kernel.notebook.offered_tools import FOLDER
from agent_kernel.protocol.kernel import MENTION_CHARACTERS, Mention
from agent_kernel.protocol.pages import CellState
from agent_kernel.tools.builtin.cells import tell_one
from agent_kernel.tools.builtin.mentioned_files import cell_named, mentioned_file, saved_cell

_VARIABLE = re.compile(r"([^\W\d]\w*)(?:[.-].*)?")
"""A variable, or an attribute or a column of one."""


def read_mentions(
    shell: InteractiveShell, ran: RanCells, names: Sequence[str], notebook: str | None, root: Path = FOLDER
) -> tuple[Mention, ...]:
    """What there is of these. Slow: call it in a thread of its own."""

    def read(name: str) -> Mention | None:
        wanted = cell_named(name)
        return _variable_or_file(shell, name, root) if wanted is None else _cell(ran, name, wanted, notebook, root)

    return tuple(mention for mention in map(read, names) if mention is not None)


def _variable_or_file(shell: InteractiveShell, name: str, root: Path) -> Mention | None:
    """A name with a dot or a slash is a file's if there is such a file: `sales.csv` beside a variable `sales`."""
    mine = user_variables(shell.user_ns, shell.user_ns_hidden)
    if name not in mine:
        try:
            text = mentioned_file(root, name)
        except ToolFailed as refusal:
            return Mention(name=name, refusal=str(refusal))
        if text is not None:
            return Mention(name=name, text=text)
    found = _VARIABLE.fullmatch(name)
    if found is None or found[1] not in mine:
        return None
    return Mention(name=name, text=f"the variable {inspect_variables(mine, {}, [found[1]])}"[:MENTION_CHARACTERS])


def _cell(ran: RanCells, name: str, wanted: int | str, notebook: str | None, root: Path) -> Mention | None:
    """A cell as it ran; from the saved notebook where the kernel does not know what it showed."""
    found, with_outputs = ran.find(wanted)
    if found is None or not with_outputs:
        source = None if found is None else found.source
        saved = saved_cell(root, notebook, partial(_is_it, wanted=wanted, source=source))
        if saved is not None:
            text, seen = tell_one(saved, MENTION_CHARACTERS)
            return Mention(name=name, is_cell=True, is_saved=True, cell=seen, text=text)
    if found is None:
        return None
    text, cells = describe_cell(found)
    return Mention(name=name, is_cell=True, cell=next(iter(cells), None), text=text)


def _is_it(cell: CellState, wanted: int | str, source: str | None) -> bool:
    """Whether a saved cell is meant. One of an earlier kernel may have the same number."""
    if isinstance(wanted, str):
        return cell.cell_id == wanted
    return cell.execution_count == wanted and source in (None, cell.source)
