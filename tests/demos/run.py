"""Runs a demo notebook in a real kernel, as somebody without a key does, records it, and saves it with its outputs."""

import itertools
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from agent_kernel.models.recordings.asked import Question
from agent_kernel.models.recordings.format import Asked, DecisionLine, Settings, Turn, dumped, load
from agent_kernel.models.recordings.player import RecordedModel, outcome
from agent_kernel.notebook.hosts.discovery import host_for
from agent_kernel.notebook.kernel.state import kernel_state
from agent_kernel.version import __version__

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
RECORDINGS = NOTEBOOKS / "recordings"
NAMES = sorted(path.stem for path in RECORDINGS.glob("*.jsonl"))
"""The notebooks that have a recording of their own."""
CELL_SECONDS = 300
SETTINGS = ("OPENAI_", "ANTHROPIC_", "AGENT_KERNEL_", "JPY_")
"""What would lead the kernel to a model or to a server."""


def stories(name: str) -> list[list[Turn]]:
    """The turns of a notebook's recording by prompt."""
    turns = [placed.turn for placed in load(RECORDINGS / f"{name}.jsonl").turns]
    return [list(story) for _, story in itertools.groupby(turns, key=lambda turn: turn.prompt)]


def run_notebook(
    name: str, folder: Path = NOTEBOOKS, *, setup: str = "", variables: Mapping[str, str] | None = None
) -> nbformat.NotebookNode:
    """The notebook NAME.ipynb of a folder, run from top to bottom. `setup` is run before its cells. Raises nbclient's
    `CellExecutionError`."""
    import matplotlib.font_manager  # noqa: F401 -- its first import says on stderr that it builds a cache

    notebook: nbformat.NotebookNode = nbformat.read(folder / f"{name}.ipynb", as_version=4)
    client = NotebookClient(
        notebook, timeout=CELL_SECONDS, record_timing=False, resources={"metadata": {"path": str(folder)}}
    )
    environ = {key: value for key, value in os.environ.items() if not key.startswith(SETTINGS)}
    count = 0
    with client.setup_kernel(env={**environ, **(variables or {})}):
        if setup:
            client.execute_cell(nbformat.v4.new_code_cell(setup), 0, store_history=False)
        for index, cell in enumerate(notebook.cells):
            if cell.cell_type == "code":
                count += 1
                # nbval keeps no history either: records name the cells before them only where there is one.
                client.execute_cell(cell, index, execution_count=count, store_history=False)
                _number(cell, count)
    return notebook


def record(name: str) -> None:
    """Make the recording of a notebook again, with its answers in place of a model. A call that ends otherwise than
    before has no answer then, and the recording fails."""
    path = RECORDINGS / f"{name}.jsonl"
    header = load(path).header.model_copy(update={"made_with": __version__})
    with tempfile.TemporaryDirectory() as folder:
        before = shutil.copy(path, folder)
        path.write_bytes(dumped(header) + b"\n")
        try:
            run_notebook(
                name,
                setup=f"__import__('importlib').import_module('tests.demos.run').register({str(before)!r})",
                variables={
                    "AGENT_KERNEL_MODEL": "scripted",
                    "AGENT_KERNEL_REPLAY": "record",
                    "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", "")))),
                },
            )
        finally:
            path.with_name(f".{path.name}.lock").unlink(missing_ok=True)
    _let_people_decide(path)


def register(path: str) -> None:
    """In a kernel: the model `scripted` says what a recording says, by what became of the calls alone."""
    recording = load(Path(path))
    turns = tuple(replace(placed, turn=_by_outcome(placed.turn)) for placed in recording.turns)
    decisions = tuple(one.model_copy(update={"tool": None, "arguments": None}) for one in recording.decisions)
    model = RecordedModel(replace(recording, turns=turns, decisions=decisions), name="scripted")
    host: Any = host_for(kernel_state(), model)
    host._models.register(model)


def _by_outcome(turn: Turn) -> Turn:
    """The turn as one writes it by hand."""
    question = Question(turn.prompt, turn.step, 0, "", turn.asked, Settings(id=""))
    return turn.model_copy(update={"after": turn.after or outcome(question), "asked": Asked()})


def _let_people_decide(path: Path) -> None:
    """Take the digests out of the decisions, which leaves the arguments. So they count where nobody can be asked, for
    exactly these calls, and in JupyterLab the reader decides."""
    recording = load(path)
    head = path.read_bytes().partition(b"\n")[0]
    rows = [
        dumped(line.model_copy(update={"digest": None})) if isinstance(line, DecisionLine) else row
        for row, line in recording.rows
    ]
    path.write_bytes(b"".join(row + b"\n" for row in (head, *rows)))


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
