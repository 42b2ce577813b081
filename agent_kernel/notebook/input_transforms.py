"""What IPython is told of cells with `%agent` and `%%agent`, by its input transformers: of cells that it would refuse,
or take for something else."""

import re
from io import StringIO
from itertools import pairwise
from tokenize import TokenError, generate_tokens

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

NOT_FIRST = (
    "%%agent has to be the first line of its cell: nothing stands above it, no comment either. "
    "Put what is above it into a cell of its own."
)
_MAGIC = re.compile(r"%%agent(?!\S)")
_QUESTION = re.compile(r"%agent\s+(\S.*\?)\s*")


def _with_body(lines: list[str]) -> list[str]:
    """IPython refuses a cell of a magic alone, and asks whether another one was meant."""
    return [*lines, "\n"] if len(lines) == 1 and _MAGIC.match(lines[0]) else lines


def _question(lines: list[str]) -> list[str]:
    """IPython takes a line that ends in `?` for a question about a Python name."""
    if len(lines) == 1 and (found := _QUESTION.fullmatch(lines[0])) is not None:
        return [f"get_ipython().run_line_magic('agent', {found[1]!r})\n"]
    return lines


def _prompt_first(lines: list[str]) -> list[str]:
    """IPython would call the prompt invalid Python, or not know the magic. Raises `UsageError`."""
    if any(map(_MAGIC.match, lines)) and not lines[0].startswith("%%") and _is_code(lines):
        raise UsageError(NOT_FIRST)
    return lines


_prompt_first.has_side_effects = True  # type: ignore[attr-defined]  # a cell that is being written is not refused


def _is_code(lines: list[str]) -> bool:
    """Whether a line `%%agent` is in no string."""
    try:
        for first, second in pairwise(generate_tokens(StringIO("".join(lines)).readline)):
            if first.string == second.string == "%" and first.start[1] == 0 and _MAGIC.match(first.line):
                return True
    except (TokenError, SyntaxError):  # further up than the magic: IPython says what is wrong there
        pass
    return False


_TRANSFORMS = (_with_body, _question, _prompt_first)


def load(shell: InteractiveShell) -> None:
    unload(shell)
    shell.input_transformers_cleanup.extend(_TRANSFORMS)


def unload(shell: InteractiveShell) -> None:
    found = shell.input_transformers_cleanup
    found[:] = [one for one in found if one not in _TRANSFORMS]
