"""The questions, their labels and their tables: gets the files of InfiAgent-DABench from their publisher, at one commit
and checked against their digests, and reads them."""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent_kernel.tools.builtin.safe_open import replace_file

ROOT = Path(__file__).parents[2]
DATA = ROOT / ".cache" / "dabench"
"""Where `fetch` puts the files, which are not part of this project."""
QUESTIONS = "da-dev-questions.jsonl"
LABELS = "da-dev-labels.jsonl"
TABLES = "da-dev-tables"
COMMIT = "d02d18a64da23f9dcc8f5a529f6203e0010c2072"
BASE = f"https://raw.githubusercontent.com/InfiAgent/InfiAgent/{COMMIT}"
INSIDE = "examples/DA-Agent"
"""The folder in upstream's repository to which the names in the list of digests are relative."""
DIGESTS = Path(__file__).with_name("sha256sums.txt")
"""In the form that `sha256sum --check` reads."""
TIMEOUT = 60.0
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


def load(folder: Path, only: Collection[int] = ()) -> Dataset:
    """Read the data set, or only the questions with these ids. Raises `DabenchError`."""
    try:
        questions = [Question.model_validate_json(line) for line in _lines(folder / QUESTIONS)]
        labels = {
            label.id: dict(label.common_answers) for label in map(Label.model_validate_json, _lines(folder / LABELS))
        }
    except (OSError, ValidationError) as error:
        raise DabenchError(f"{folder} can't be read: {error}\n{FETCH}") from None
    if unknown := set(only) - {question.id for question in questions}:
        raise DabenchError(f"There is no question {_listed(unknown)} in {folder / QUESTIONS}. Leave it out of --only.")
    chosen = tuple(question for question in questions if not only or question.id in only)
    if unlabelled := {question.id for question in chosen} - set(labels):
        raise DabenchError(f"{folder / LABELS} has no label of question {_listed(unlabelled)}. {FETCH}")
    dataset = Dataset(folder, chosen, labels)
    if lacking := {question.file_name for question in chosen if not dataset.table(question).is_file()}:
        raise DabenchError(f"{folder / TABLES} lacks {', '.join(sorted(lacking))}. {FETCH}")
    return dataset


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _listed(ids: Iterable[int]) -> str:
    return ", ".join(str(number) for number in sorted(ids))


def digests() -> dict[str, str]:
    """The SHA-256 of each file by its name."""
    pairs = (line.split("  ", 1) for line in _lines(DIGESTS))
    return {name: digest for digest, name in pairs}


def fetch(target: Path, expected: Mapping[str, str], base: str = BASE) -> int:
    """Bring the files that are not there yet into a folder, and return how many. `base` is the address of upstream's
    repository, or of a checkout. A file is written whole and only if its digest is right. Raises `DabenchError`."""
    fetched = 0
    for name, digest in expected.items():
        path = target / name.removeprefix("data/")
        if path.is_file() and _digest(path.read_bytes()) == digest:
            continue
        content = _get(f"{base}/{INSIDE}/{quote(name)}")
        if (found := _digest(content)) != digest:
            raise DabenchError(f"{name} is not the file of commit {COMMIT[:10]}: its SHA-256 is {found}, not {digest}.")
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path.resolve(), content)
        fetched += 1
    return fetched


def _get(address: str) -> bytes:
    try:
        with closing(urlopen(address, timeout=TIMEOUT)) as answer:
            content: bytes = answer.read()
    except (URLError, HTTPException, TimeoutError) as error:
        raise DabenchError(f"{address} can't be fetched: {error}. With a checkout: fetch --from DIR.") from None
    return content


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
