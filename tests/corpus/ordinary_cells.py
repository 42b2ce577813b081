"""Ordinary cells of notebooks: the examples in the docstrings of installed libraries, and the demo's own cells."""

import ast
import doctest
import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

LIBRARIES = ("pandas", "numpy", "matplotlib")
_NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
_LARGEST_MODULE = 1_000_000


def ordinary_cells() -> list[str]:
    """Each different cell once. Read from the files; nothing is imported or run."""
    return list(dict.fromkeys((*_notebook_cells(), *_examples())))


def _notebook_cells() -> Iterator[str]:
    for path in sorted(_NOTEBOOKS.rglob("*.ipynb")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "code":
                yield "".join(cell["source"])


def _examples() -> Iterator[str]:
    for library in LIBRARIES:
        spec = find_spec(library)
        assert spec is not None
        assert spec.origin is not None, library
        for path in sorted(Path(spec.origin).parent.rglob("*.py")):
            if "tests" not in path.parts and path.stat().st_size < _LARGEST_MODULE:
                yield from _module_examples(path)


def _module_examples(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8", errors="replace")
    if ">>>" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and ">>>" in node.value:
            yield from _cells(node.value)


def _cells(docstring: str) -> Iterator[str]:
    """Examples that follow each other are one cell; words between them end it."""
    try:
        pieces = doctest.DocTestParser().parse(docstring)
    except ValueError:
        return
    cell = ""
    for piece in pieces:
        if isinstance(piece, doctest.Example):
            cell += piece.source
        elif piece.strip():
            if cell:
                yield cell
            cell = ""
    if cell:
        yield cell
