"""Reads what a prompt mentions: variables, files of the notebook's folder, cells. It runs none of the user's code."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from agent_kernel.errors import ToolFailed
from agent_kernel.notebook.inspect import inspect_variables, user_variables
from agent_kernel.notebook.tools import FOLDER
from agent_kernel.protocol.kernel import MENTION_CHARACTERS, Mention, MentionsRead
from agent_kernel.tools.builtin.mentions import MentionedCell, mentioned_cell, mentioned_file, saved_cell
from agent_kernel.tools.builtin.notebooks import text_of

_NUMBER = re.compile(r"\[(\d{1,9})\]")
_CELL = "cell:"
_VARIABLE = re.compile(r"([^\W\d]\w*)(?:[.-].*)?")
"""A variable, or an attribute or a column of one."""


def read_mentions(
    shell: InteractiveShell, names: Sequence[str], notebook: str | None, root: Path = FOLDER
) -> MentionsRead:
    """What there is of these. Slow: call it in a thread of its own."""

    def read(name: str) -> Mention | None:
        if not name.startswith(("[", _CELL)):
            return _variable_or_file(shell, name, root)
        cell = _cell(shell, name, notebook, root)
        return None if cell is None else Mention(name=name, is_cell=True, cell=cell.seen, text=cell.text)

    return MentionsRead(mentions=tuple(mention for mention in map(read, names) if mention is not None))


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
    return Mention(name=name, text=_described(mine, found[1])) if found is not None and found[1] in mine else None


def _described(mine: Mapping[str, Any], name: str) -> str:
    return f"the variable {inspect_variables(mine, {}, [name])}"[:MENTION_CHARACTERS]


def _cell(shell: InteractiveShell, name: str, notebook: str | None, root: Path) -> MentionedCell | None:
    if name.startswith(_CELL):
        wanted = name.removeprefix(_CELL)
        return saved_cell(root, notebook, lambda cell: cell.get("id") == wanted)
    found = _NUMBER.fullmatch(name)
    if found is None:
        return None
    number = int(found[1])
    ran = _executed(shell, number)
    saved = saved_cell(root, notebook, partial(_ran_as, number=number, source=None if ran is None else ran["source"]))
    return saved if saved is not None or ran is None else mentioned_cell(ran)


def _ran_as(cell: dict[str, Any], number: int, source: str | None) -> bool:
    """Whether a saved cell is the one with this number. One of an earlier kernel may have the same number."""
    return cell.get("execution_count") == number and source in (None, text_of(cell.get("source")))


def _executed(shell: InteractiveShell, number: int) -> dict[str, Any] | None:
    """What IPython keeps of a cell: its source and the representation of its value."""
    history: Any = shell.history_manager
    sources: list[str] = history.input_hist_raw if history is not None else []
    if not 0 < number < len(sources) or not sources[number].strip():
        return None
    shown = history.output_hist_reprs.get(number)
    output = {"output_type": "execute_result", "data": {"text/plain": shown}}
    return {
        "cell_type": "code",
        "execution_count": number,
        "source": sources[number],
        "outputs": [output] if isinstance(shown, str) else [],
    }
