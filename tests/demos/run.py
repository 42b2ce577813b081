"""Runs a demo notebook in a real kernel, as somebody without a key does, and saves it with its outputs."""

import os
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
RECORDINGS = NOTEBOOKS / "recordings"
CELL_SECONDS = 300
SETTINGS = ("OPENAI_", "ANTHROPIC_", "AGENT_KERNEL_", "JPY_")
"""What would lead the kernel to a model or to a server."""


def run_notebook(name: str, folder: Path = NOTEBOOKS) -> nbformat.NotebookNode:
    """The notebook NAME.ipynb of a folder, run from top to bottom. Raises nbclient's `CellExecutionError`."""
    import matplotlib.font_manager  # noqa: F401 -- its first import says on stderr that it builds a cache

    notebook: nbformat.NotebookNode = nbformat.read(folder / f"{name}.ipynb", as_version=4)
    client = NotebookClient(
        notebook, timeout=CELL_SECONDS, record_timing=False, resources={"metadata": {"path": str(folder)}}
    )
    count = 0
    with client.setup_kernel(env={key: value for key, value in os.environ.items() if not key.startswith(SETTINGS)}):
        for index, cell in enumerate(notebook.cells):
            if cell.cell_type == "code":
                count += 1
                # nbval keeps no history either: records name the cells before them only where there is one.
                client.execute_cell(cell, index, execution_count=count, store_history=False)
                _number(cell, count)
    return notebook


def _number(cell: nbformat.NotebookNode, count: int) -> None:
    """Number a cell as a page does: without a history the kernel calls each one the first."""
    cell.execution_count = count
    for output in cell.outputs:
        if output.output_type == "execute_result":
            output.execution_count = count


def save(name: str, notebook: nbformat.NotebookNode) -> None:
    """Save the notebook without what differs from one run or machine to the next."""
    info: dict[str, Any] = notebook.metadata.get("language_info", {})
    info.pop("version", None)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    nbformat.write(notebook, NOTEBOOKS / f"{name}.ipynb")
