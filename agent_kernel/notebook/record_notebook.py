"""Records the models' turns of a notebook, for `agent-kernel record`: all, or some of them again."""

import argparse
import importlib.util
import os
import sys
from pathlib import Path

import nbformat

from agent_kernel.errors import ConfigurationError
from agent_kernel.models.recordings.format import load
from agent_kernel.models.recordings.names import VARIABLE, TurnsToRecord, read_name
from agent_kernel.notebook.batch.commands import fault_of


def run_command(options: argparse.Namespace) -> int:
    """Carry out `agent-kernel record`. Returns the exit code. Raises `ConfigurationError`."""
    notebook: Path = options.notebook
    turns = TurnsToRecord(options.turn, options.turn) if options.turn is not None else TurnsToRecord(options.first or 1)
    if importlib.util.find_spec("nbclient") is None:
        raise ConfigurationError("nbclient is not installed. Run: pip install nbclient")
    if fault := fault_of(notebook):
        raise ConfigurationError(fault)
    failures = record_notebook(notebook, options.to, turns, timeout=options.timeout)
    for failure in failures:
        sys.stderr.write(f"{failure}\n")
    sys.stdout.write(f"{notebook}: {'not all of it could be recorded' if failures else 'recorded'}\n")
    return 1 if failures else 0


def record_notebook(
    notebook: Path, recording: Path | None, turns: TurnsToRecord, *, timeout: float | None = None
) -> list[str]:
    """Run all cells in a fresh kernel, in the notebook's folder, so that what its cells replay is recorded.

    Cells that name no recording are recorded to `recording`, by default `NAME.jsonl` beside the notebook. The
    notebook's file is not changed. `timeout` is the longest time of one cell, in seconds. Returns one line for each
    cell that failed, and one where `turns` begin behind the recording's last.
    """
    from nbclient import NotebookClient

    document = nbformat.read(notebook, as_version=4)
    failures: list[str] = []

    def note(cell: object, cell_index: int, execute_reply: dict[str, dict[str, str]]) -> None:  # noqa: ARG001 -- a hook
        content = execute_reply["content"]
        if content["status"] == "error":
            failures.append(f"Cell {cell_index}: {content['ename']}: {content['evalue']}")

    client = NotebookClient(
        document,
        timeout=timeout,
        allow_errors=True,
        resources={"metadata": {"path": str(notebook.resolve().parent)}},
        on_cell_executed=note,
    )
    client.execute(env=_environment(notebook, recording, turns))
    for index, cell in enumerate(document.cells):
        failures += [
            f"Cell {index}: {output['data']['text/plain']}"
            for output in cell.get("outputs", [])
            if output.get("data", {}).get("text/plain", "").startswith("Agent run: failed")
        ]
    return failures + _not_there(_path(notebook, recording), turns)


def _path(notebook: Path, recording: Path | None) -> Path:
    return (recording or notebook.with_suffix(".jsonl")).resolve()


def _not_there(path: Path, turns: TurnsToRecord) -> list[str]:
    """That the recording has not as many turns. Raises `ConfigurationError`."""
    if turns.first == 1 or not path.exists() or turns.first <= (there := len(load(path).turns)):
        return []
    return [f"{path.name} has {there} turns, so none was recorded: there is no turn {turns.first}."]


def _environment(notebook: Path, recording: Path | None, turns: TurnsToRecord) -> dict[str, str]:
    """The kernel's environment: what it replays it records, and so it does the default model."""
    environ = dict(os.environ)
    environ[VARIABLE] = _mode(turns)
    default = environ.get("AGENT_KERNEL_MODEL", "").strip()
    about = read_name(default) if default else None
    if about is None:
        path = _path(notebook, recording)
        environ["AGENT_KERNEL_MODEL"] = f"record:{path}" + (f" --model {default}" if default else "")
    return environ


def _mode(turns: TurnsToRecord) -> str:
    if turns == TurnsToRecord():
        return "record"
    return f"record:{turns.first}" if turns.last is not None else f"record:{turns.first}-"
