"""Reads the questions, their labels and their tables, in the files that InfiAgent-DABench publishes."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

ROOT = Path(__file__).parents[2]
DATA = ROOT / ".cache" / "dabench"
"""Where `fetch` puts the files, which are not part of this project."""
QUESTIONS = "da-dev-questions.jsonl"
LABELS = "da-dev-labels.jsonl"
TABLES = "da-dev-tables"
FETCH = "`python -m benchmarks.dabench fetch` gets the questions, the labels and the tables."


class DabenchError(Exception):
    """The message says what is wrong, and what to do next."""


class Question(BaseModel):
    """A line of the questions' file. Fields that upstream may add are ignored."""

    model_config = ConfigDict(frozen=True)

    id: int
    question: str = Field(min_length=1)
    concepts: tuple[str, ...] = ()
    constraints: str
    format: str = Field(min_length=1)
    """The names and forms of the answers, such as `@mean_fare[value] where "value" is ...`."""
    file_name: str = Field(pattern=r"^[^/\\]+$")
    """The table, in the folder of tables: no path, so that nothing else can be copied."""
    level: str = ""


class Label(BaseModel):
    """A line of the labels' file."""

    model_config = ConfigDict(frozen=True)

    id: int
    common_answers: tuple[tuple[str, str], ...] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class Dataset:
    folder: Path
    questions: tuple[Question, ...]
    """In the order of the file."""
    labels: Mapping[int, Mapping[str, str]]
    """The right answers by the question's id and the answer's name."""

    def table(self, question: Question) -> Path:
        return self.folder / TABLES / question.file_name


Line = TypeVar("Line", Question, Label)


def load(folder: Path, only: Collection[int] = ()) -> Dataset:
    """Read the data set, or only the questions with these ids. Raises `DabenchError`."""
    questions = _read(folder / QUESTIONS, Question)
    labels = {label.id: dict(label.common_answers) for label in _read(folder / LABELS, Label)}
    if unknown := set(only) - {question.id for question in questions}:
        raise DabenchError(f"There is no question {_listed(unknown)} in {folder / QUESTIONS}. Leave it out of --only.")
    chosen = tuple(question for question in questions if not only or question.id in only)
    if unlabelled := {question.id for question in chosen} - set(labels):
        raise DabenchError(f"{folder / LABELS} has no label of question {_listed(unlabelled)}. {FETCH}")
    dataset = Dataset(folder, chosen, labels)
    if lacking := {question.file_name for question in chosen if not dataset.table(question).is_file()}:
        raise DabenchError(f"{folder / TABLES} lacks {', '.join(sorted(lacking))}. {FETCH}")
    return dataset


def _read(path: Path, kind: type[Line]) -> list[Line]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DabenchError(f"There is no {path}. {FETCH}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DabenchError(f"{path} can't be read: {error}") from None
    lines: list[Line] = []
    places: dict[int, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            read = kind.model_validate_json(line)
        except ValidationError as error:
            raise DabenchError(f"{path}, line {number}: {_in_short(error)}. {FETCH}") from None
        if read.id in places:
            raise DabenchError(f"{path}, line {number}: line {places[read.id]} has the id {read.id} too. {FETCH}")
        places[read.id] = number
        lines.append(read)
    if not lines:
        raise DabenchError(f"{path} has no lines. {FETCH}")
    return lines


def _in_short(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else first["msg"]


def _listed(ids: Iterable[int]) -> str:
    return ", ".join(str(number) for number in sorted(ids))
