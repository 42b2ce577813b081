"""Runs a notebook from top to bottom without a page, for `agent-kernel run`."""

from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient


def run_notebook(notebook: Path, output: Path, *, timeout: float | None = None) -> list[str]:
    """Run all cells in a fresh kernel, in the notebook's folder, and save the result to `output`.

    A cell that fails does not stop the others. `timeout` is the longest time of one cell, in seconds. Returns one line
    for each cell that failed and for each agent's run that ended in an error. Raises `OSError` where a file can't be
    read or written, and nbformat's errors for a file that is not a notebook.
    """
    document = nbformat.read(notebook, as_version=4)
    failures: list[str] = []

    def note(cell: Any, cell_index: int, execute_reply: dict[str, Any]) -> None:
        content = execute_reply["content"]
        if content["status"] == "error":
            failures.append(f"Cell {cell_index}: {content['ename']}: {content['evalue']}")
        failures.extend(f"Cell {cell_index}: an agent's run failed" for _ in _failed_runs(cell))

    client = NotebookClient(
        document,
        timeout=timeout,
        allow_errors=True,
        record_timing=False,  # so that the same outputs give the same file
        resources={"metadata": {"path": str(notebook.resolve().parent)}},
        on_cell_executed=note,
    )
    try:
        client.execute()
    finally:
        nbformat.write(document, output)
    return failures


def _failed_runs(cell: Any) -> list[Any]:
    return [
        output
        for output in cell.get("outputs", [])
        if output.get("data", {}).get("text/plain", "").startswith("Agent run: failed")
    ]
