"""Runs questions as notebooks, with the runner of `agent-kernel run`, and keeps what came of each as soon as it has
ended."""

import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self

import nbformat
from pydantic import BaseModel, ConfigDict

from agent_kernel.approvals.scripted import VARIABLE, ApprovalMode
from agent_kernel.export import read_run
from agent_kernel.log.opening import open_to_read
from agent_kernel.notebook.batch.execute import run_all
from agent_kernel.notebook.batch.job import Job, NotebookResult, agent_log_of
from agent_kernel.notebook.batch.report import Progress
from benchmarks.dabench.dataset import Dataset, Question

OUTCOMES = "outcomes.jsonl"
NOTEBOOKS = "notebooks"
NOTEBOOK = "question.ipynb"
PROMPT = """\
%%agent
The table `{file_name}` is in the folder of this notebook. Answer a question about it.

Question: {question}

Constraints: {constraints}

Answer format:
{format}

Work with the table by code in this notebook. Write the answers at the end of your last message, each exactly in the
form `@name[value]` that the answer format gives, with the value in place of the words in the brackets.\
"""


@dataclass(frozen=True, slots=True)
class Settings:
    model: str | None
    """The name that was asked for; `None` where answers written as code are played."""
    approve: ApprovalMode
    timeout: int
    """Seconds for one question."""
    environ: Callable[[Question], Mapping[str, str]]
    """The variables that name the model to the kernel of a question."""
    code: Mapping[int, str] = field(default_factory=dict)
    """What is played to a question in the place of a model, by its id."""


class Outcome(BaseModel):
    """What came of one question."""

    model_config = ConfigDict(frozen=True)

    id: int
    basis: str
    """A digest of all that the answer depends on. When it changes, the question is asked again."""
    status: Literal["complete", "cancelled", "error", "no run"]
    """How the agent's run ended. `no run`: the notebook ended before it began, or its kernel died."""
    text: str = ""
    """The run's last message, which is what is graded."""
    input_tokens: int = 0
    output_tokens: int = 0
    estimated: bool = False
    """Whether some tokens are estimated."""
    cost: float | None = None
    """US dollars; `None` if no price is known."""
    cost_is_partial: bool = False
    calls: int = 0
    denied: int = 0
    failed_calls: int = 0
    steps: int = 0
    seconds: float = 0.0
    """How long the agent worked."""
    error: str = ""

    @classmethod
    def of(cls, question: int, basis: str, result: NotebookResult) -> Self:
        """Read the outcome from the log that the notebook's kernel wrote."""
        if not result.runs:
            failed = next((cell.error for cell in result.cells if cell.status == "failed"), "")
            error = result.error or failed
            return cls(id=question, basis=basis, status="no run", error=error)
        with closing(open_to_read(agent_log_of(Path(result.notebook)))[0]) as connection:
            logged = read_run(connection, result.runs[-1].run_id).result
        run = logged.run
        if run.status == "running" or run.status == "queued":  # its kernel died
            return cls(id=question, basis=basis, status="no run", error=result.error)
        states = [call.state for call in logged.tool_calls]
        return cls(
            id=question,
            basis=basis,
            status=run.status,
            text=logged.text,
            calls=len(states),
            denied=states.count("denied"),
            failed_calls=states.count("error"),
            error=run.error.message if run.error is not None else "",
            **run.usage.model_dump(
                include={"input_tokens", "output_tokens", "estimated", "cost", "cost_is_partial", "steps", "seconds"}
            ),
        )


def prompt_of(question: Question) -> str:
    """The cell that asks the question."""
    return PROMPT.format_map(question.model_dump())


def write_notebook(dataset: Dataset, question: Question, folder: Path) -> Path:
    """Write the notebook, and copy its table to it. Returns its path. What earlier runs left in the folder is removed.

    The folder holds no label, and nothing of the other questions.
    """
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    shutil.copyfile(dataset.table(question), folder / question.file_name)
    prompt = prompt_of(question)
    cells = [
        nbformat.v4.new_code_cell("%load_ext agent_kernel", id="extension"),
        nbformat.v4.new_code_cell(prompt, id="question"),
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path = folder / NOTEBOOK
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)
    return path


def run_questions(dataset: Dataset, folder: Path, settings: Settings, workers: int) -> dict[int, Outcome]:
    """Ask the questions that have no outcome in the folder yet, or one on another basis. Returns all outcomes. Ctrl+C
    stops: what has ended is kept, and the next call goes on."""
    folder.mkdir(parents=True, exist_ok=True)
    bases = {question.id: _basis(dataset, question, settings) for question in dataset.questions}
    known = {one.id: one for one in read_outcomes(folder) if bases.get(one.id) == one.basis}
    notebooks = {
        write_notebook(dataset, question, folder / NOTEBOOKS / str(question.id)): question
        for question in dataset.questions
        if question.id not in known
    }
    jobs = [_job(notebook, settings, question) for notebook, question in notebooks.items()]
    asked = {notebook: (question.id, bases[question.id]) for notebook, question in notebooks.items()}
    keeper = _Keeper(folder / OUTCOMES, asked)
    if jobs:
        began = time.monotonic()
        keeper.finish(run_all(jobs, workers, keeper), time.monotonic() - began)
    return {**known, **keeper.kept}


def _basis(dataset: Dataset, question: Question, settings: Settings) -> str:
    digest = hashlib.sha256(dataset.table(question).read_bytes())
    code = settings.code.get(question.id)
    digest.update(repr((prompt_of(question), settings.model, settings.approve, settings.timeout, code)).encode())
    return digest.hexdigest()[:16]


def _job(notebook: Path, settings: Settings, question: Question) -> Job:
    return Job(
        notebook=notebook,
        output=notebook,
        log=notebook.with_suffix(".log"),
        parameters=None,
        environ={**os.environ, **settings.environ(question), VARIABLE: settings.approve},
        timeout=settings.timeout,
        allow_errors=False,
    )


class _Keeper(Progress):
    """Writes each outcome down as its notebook ends, too."""

    def __init__(self, path: Path, asked: Mapping[Path, tuple[int, str]]) -> None:
        super().__init__(sys.stdout)
        self._path = path
        self._asked = asked
        """The id and the basis of a notebook's question."""
        self.kept: dict[int, Outcome] = {}

    def on_end(self, result: NotebookResult) -> None:
        super().on_end(result)
        if result.status == "stopped":
            return  # it is asked again when the run is taken up
        outcome = Outcome.of(*self._asked[Path(result.notebook)], result)
        self.kept[outcome.id] = outcome
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{outcome.model_dump_json()}\n")


def read_outcomes(folder: Path) -> list[Outcome]:
    """In the order in which they came."""
    path = folder / OUTCOMES
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [Outcome.model_validate_json(line) for line in lines]
