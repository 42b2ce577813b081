"""Says on the terminal how the notebooks are getting on: a line for each, and below them what runs just now."""

import shutil
from collections.abc import Sequence
from typing import TextIO

from agent_kernel.notebook.batch.job import Job, NotebookResult
from agent_kernel.protocol.figures import plural

WORDS = {"passed": "passed ", "failed": "FAILED ", "stopped": "stopped", "running": "running", "unknown": "UNKNOWN"}
CLEAR = "\r\x1b[K"


class Progress:
    """In a pipe no line changes: what begins is a line of its own."""

    def __init__(self, notebooks: int, stream: TextIO) -> None:
        self._notebooks = notebooks
        self._stream = stream
        self._changes = stream.isatty()
        self._running: dict[str, str] = {}
        self._delays: dict[str, str] = {}
        self._done = 0

    def on_start(self, job: Job) -> None:
        self._running[str(job.notebook)] = job.notebook.name
        self._show("" if self._changes else f"started {job.notebook}\n")

    def on_cell(self, job: Job, position: int, cells: int) -> None:
        """The code cell at this position of so many begins."""
        self._running[str(job.notebook)] = f"{job.notebook.name} {position}/{cells}"
        self._show("")

    def on_delay(self, job: Job, words: str, *, begins: bool) -> None:
        """The notebook's agent waits for its model's service, as is said again each second, or (`""`) no more."""
        self._delays[str(job.notebook)] = f" {words}" if words else ""
        self._show(f"waiting {job.notebook}: {words}\n" if begins and not self._changes else "")

    def on_end(self, result: NotebookResult) -> None:
        self._running.pop(result.notebook, None)
        self._delays.pop(result.notebook, None)
        self._done += 1
        self._show(f"{line_of(result)}\n")

    def finish(self, results: Sequence[NotebookResult], seconds: float) -> None:
        self._running.clear()
        numbers = {word: sum(result.status == word for result in results) for word in WORDS}
        said = ", ".join(f"{number} {word}" for word, number in numbers.items() if number)
        self._show(f"{plural(len(results), 'notebook')}: {said} in {seconds:.1f} s\n")

    def _show(self, text: str) -> None:
        below = ""
        if self._changes and self._running:
            running = [f"{said}{self._delays.get(path, '')}" for path, said in self._running.items()]
            below = f"{self._done} of {self._notebooks} done · {' · '.join(running)}"
            below = below[: shutil.get_terminal_size().columns - 1]
        self._stream.write(f"{CLEAR if self._changes else ''}{text}{below}")
        self._stream.flush()


def line_of(result: NotebookResult) -> str:
    """One line about a notebook, and below it why it failed, and what was denied in it."""
    ran = sum(cell.status != "not_run" for cell in result.cells)
    facts = [f"{ran} of {plural(len(result.cells), 'cell')}"]
    if result.runs:
        facts.append(plural(len(result.runs), "run"))
    facts.append("earlier, not run again" if result.earlier else f"{result.seconds:.1f} s")
    lines = [f"{WORDS[result.status]} {result.notebook}  ({', '.join(facts)})"]
    failed = [cell for cell in result.cells if cell.status == "failed"]
    for cell in failed:
        lines += _indented(f"Cell {cell.number}: {_in_short(cell.error)}")
    if result.error and not any(result.error == cell.error for cell in failed):
        lines += _indented(result.error)
    for run in result.runs:
        if run.denied:
            lines += _indented(f'{run.run_id} "{run.prompt}": {plural(run.denied, "call")} denied')
    return "\n".join(lines)


def _in_short(error: str) -> str:
    """The error without its traceback, which the report and the log have."""
    lines = error.splitlines()
    end = next((place for place, line in enumerate(lines) if line.startswith("---")), len(lines))
    return "\n".join(lines[:end])


def _indented(text: str) -> list[str]:
    return [f"          {line}" for line in text.splitlines()]
