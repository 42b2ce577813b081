"""Running a notebook from top to bottom with nobody watching: `agent-kernel run`."""

from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError


def run_notebook(notebook: Path, output: Path, *, timeout: float | None = None) -> list[str]:
    """Execute `notebook` in its own folder with a fresh kernel, and write what came out to `output`.

    Returns what failed, in words; an agent's run that failed has raised in its cell. Cells after a failed one do not
    run. `timeout` is in seconds for each cell.
    """
    document = nbformat.read(notebook, as_version=4)
    client = NotebookClient(document, timeout=timeout, resources={"metadata": {"path": str(notebook.resolve().parent)}})
    failures: list[str] = []
    try:
        client.execute()
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        failures.append(str(error).strip())
    finally:
        nbformat.write(document, output)
    return failures
