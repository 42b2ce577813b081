"""Parameters of a notebook, as papermill has them: a cell that is put behind the one tagged `parameters`."""

import keyword
from collections.abc import Sequence

import nbformat

from agent_kernel.errors import ConfigurationError

PARAMETERS = "parameters"
INJECTED = "injected-parameters"
Value = bool | int | float | str | None


def parameters_cell(pairs: Sequence[tuple[str, str]]) -> str | None:
    """The source of the cell; `None` without parameters. Raises `ConfigurationError` for a name that Python can't
    assign to."""
    for name, _ in pairs:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise ConfigurationError(f"{name!r} can't be the name of a parameter: it is no name of a Python variable.")
    lines = [f"{name} = {_literal(as_value(text))}" for name, text in dict(pairs).items()]
    return "\n".join(["# Parameters", *lines]) if lines else None


def as_value(text: str) -> Value:
    """The value that a word of the command line stands for, by papermill's rules: True, False, None and numbers are
    what they look like, all else is text."""
    match text:
        case "True" | "False":
            return text == "True"
        case "None":
            return None
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def _literal(value: Value) -> str:
    return f'float("{value}")' if isinstance(value, float) and repr(value) in ("inf", "-inf", "nan") else repr(value)


def inject(document: nbformat.NotebookNode, source: str) -> None:
    """Put the cell behind the one tagged `parameters`, or at the top. One that was put in before is replaced."""
    cells = [cell for cell in document.cells if INJECTED not in cell.metadata.get("tags", [])]
    tagged = [place for place, cell in enumerate(cells) if PARAMETERS in cell.metadata.get("tags", [])]
    cell = nbformat.v4.new_code_cell(source, id=INJECTED, metadata={"tags": [INJECTED]})
    if (document.nbformat, document.nbformat_minor) < (4, 5):
        del cell["id"]  # such notebooks have none
    cells.insert(tagged[0] + 1 if tagged else 0, cell)
    document.cells = cells
