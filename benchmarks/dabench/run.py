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
from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict

from agent_kernel.approvals.scripted import VARIABLE, ApprovalMode
from agent_kernel.export import read_run
from agent_kernel.log.opening import open_to_read
from agent_kernel.notebook.batch.execute import run_all
from agent_kernel.notebook.batch.job import Job, NotebookResult, agent_log_of
from agent_kernel.notebook.batch.progress import Progress
from benchmarks.dabench.dataset import DabenchError, Dataset, Question

OUTCOMES = "outcomes.jsonl"
SETTINGS = "settings.json"
NOTEBOOKS = "notebooks"
LOCK = ".lock"
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


class Settings(BaseModel):
    """What must not change between the first questions of a run and those that are asked when it is taken up again."""

    model_config = ConfigDict(frozen=True)

    model: str | None
    """The name that was asked for; `None` where answers written as code were played."""
    approve: ApprovalMode
    timeout: int
    """Seconds for one question."""


@dataclass(frozen=True, slots=True)
class Answerer:
    """What is asked."""

    environ: Callable[[Question], Mapping[str, str]]
    """The variables that name the model to the kernel of a question."""
    code: Mapping[int, str] = field(default_factory=dict)
    """What is played to a question in the place of a model, by its id."""


class Outcome(BaseModel):
    """What came of one question."""

    model_config = ConfigDict(frozen=True)

    id: int
    basis: str
    """A digest of the prompt, the table and the code that was played. When it changes, the question is asked again."""
    status: Literal["complete", "cancelled", "error", "no run"]
    """How the agent's run ended. `no run`: the notebook ended before it began, or its kernel died."""
    text: str = ""
    """The run's last message, which is what is graded."""
    run_id: str = ""
    model: str = ""
    """The model's name in the log."""
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
    notebook_seconds: float = 0.0
    """The same with the kernel's start and end."""
    error: str = ""

    @classmethod
    def of(cls, question: int, basis: str, result: NotebookResult) -> Self:
        """Read the outcome from the log that the notebook's kernel wrote. Raises `DabenchError`."""
        took = round(result.seconds, 3)
        if not result.runs:
            failed = next((cell.error for cell in result.cells if cell.status == "failed"), "")
            error = result.error or failed
            return cls(id=question, basis=basis, status="no run", notebook_seconds=took, error=error)
        with closing(open_to_read(agent_log_of(Path(result.notebook)))[0]) as connection:
            logged = read_run(connection, result.runs[-1].run_id).result
        run = logged.run
        if run.status == "running" or run.status == "queued":  # its kernel died
            return cls(id=question, basis=basis, status="no run", notebook_seconds=took, error=result.error)
        states = [call.state for call in logged.tool_calls]
        return cls(
            id=question,
            basis=basis,
            status=run.status,
            text=logged.text,
            run_id=run.run_id,
            model=run.model,
            calls=len(states),
            denied=states.count("denied"),
            failed_calls=states.count("error"),
            notebook_seconds=took,
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


def run_questions(
    dataset: Dataset,
    folder: Path,
    settings: Settings,
    answerer: Answerer,
    workers: int,
    *,
    retry: bool = False,
) -> dict[int, Outcome]:
    """Ask the questions that have no outcome in the folder yet, or one on another basis. Returns all outcomes.

    Ctrl+C stops: what has ended is kept, and the next call goes on. With `retry`, questions whose run has failed
    are asked again. Raises `DabenchError` if the folder has outcomes of other settings, or another run writes to it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / LOCK, timeout=0):
            return _run_open(dataset, folder, settings, answerer, workers, retry=retry)
    except Timeout:
        raise DabenchError(f"Another run writes to {folder}. Wait for its end, or give another --output.") from None


def _run_open(
    dataset: Dataset, folder: Path, settings: Settings, answerer: Answerer, workers: int, *, retry: bool
) -> dict[int, Outcome]:
    _keep_settings(folder, settings)
    bases = {question.id: _basis(dataset, question, answerer) for question in dataset.questions}
    known = {one.id: one for one in read_outcomes(folder).values() if bases.get(one.id) == one.basis}
    open_questions = [
        question
        for question in dataset.questions
        if question.id not in known or (retry and known[question.id].status != "complete")
    ]
    notebooks = {
        write_notebook(dataset, question, folder / NOTEBOOKS / str(question.id)): question
        for question in open_questions
    }
    jobs = [_job(notebook, settings, answerer.environ(question)) for notebook, question in notebooks.items()]
    asked = {notebook: (question.id, bases[question.id]) for notebook, question in notebooks.items()}
    keeper = _Keeper(len(jobs), folder / OUTCOMES, asked)
    if jobs:
        began = time.monotonic()
        keeper.finish(run_all(jobs, workers, keeper), time.monotonic() - began)
    return {**known, **keeper.kept}


def _basis(dataset: Dataset, question: Question, answerer: Answerer) -> str:
    digest = hashlib.sha256(dataset.table(question).read_bytes())
    digest.update(prompt_of(question).encode())
    digest.update(answerer.code.get(question.id, "").encode())
    return digest.hexdigest()[:16]


def _job(notebook: Path, settings: Settings, environ: Mapping[str, str]) -> Job:
    return Job(
        notebook=notebook,
        output=notebook,
        log=notebook.with_suffix(".log"),
        parameters=None,
        environ={**os.environ, **environ, VARIABLE: settings.approve},
        timeout=settings.timeout,
        allow_errors=False,
    )


class _Keeper(Progress):
    """Writes each outcome down as its notebook ends, too."""

    def __init__(self, notebooks: int, path: Path, asked: Mapping[Path, tuple[int, str]]) -> None:
        super().__init__(notebooks, sys.stdout)
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


def read_outcomes(folder: Path) -> dict[int, Outcome]:
    """The outcomes by question; the last one of a question that was asked again."""
    path = folder / OUTCOMES
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return {outcome.id: outcome for outcome in map(Outcome.model_validate_json, lines)}


def read_settings(folder: Path) -> Settings:
    """Raises `DabenchError`."""
    path = folder / SETTINGS
    if not path.is_file():
        raise DabenchError(f"{folder} is no folder that `python -m benchmarks.dabench run` has written.")
    return Settings.model_validate_json(path.read_text(encoding="utf-8"))


def _keep_settings(folder: Path, settings: Settings) -> None:
    path = folder / SETTINGS
    if path.is_file():
        earlier = read_settings(folder)
        changed = [name for name, value in settings if getattr(earlier, name) != value]
        if changed:
            told = ", ".join(f"{name} was {getattr(earlier, name)!r}" for name in changed)
            raise DabenchError(f"{folder} has the results of other settings: {told}. Give another --output.")
        return
    path.write_text(settings.model_dump_json(indent=1), encoding="utf-8")
