"""What came of notebooks, in words and as JUnit XML; and the report on a batch, which is a folder of logs: also of
those that still run or that died, with their audit trails merged into one.

A merged line is an entry with one more field, `notebook`. Entries are canonical JSON, so a line without that field,
written in the same form, is exactly what was hashed: each notebook's chain can be checked from the merged trail alone.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, TextIO, get_args

import orjson
from junitparser import Error, Failure, Skipped
from junitparser.xunit2 import JUnitXml, TestCase, TestSuite
from pydantic import BaseModel

from agent_kernel.errors import ConfigurationError
from agent_kernel.log.audit import check, read_entries
from agent_kernel.log.audit_head import has_trail, missing, read_note, trail_head
from agent_kernel.log.opening import open_to_read
from agent_kernel.notebook.batch.job import Job, NotebookResult, Status, agent_log_of, plain
from agent_kernel.notebook.batch.result_file import SUFFIX, is_held, log_path, result_now
from agent_kernel.protocol.events import utc_now
from agent_kernel.protocol.figures import plural

NOT_BEGUN = "It has not begun: there is no result of it."
NOTEBOOK_CASE = "notebook"
"""The case of what is no single cell's fault: a kernel that can't be started, a file that can't be written."""
Line = tuple[tuple[str, str, int], str]
"""An entry in the merged trail, behind its place: the time, the notebook, and the number of the entry. The time is
never before that of the entry before it in its own trail, so that none is out of order there."""
_INDENT = " " * 10


class Progress:
    """Prints a line when a notebook begins, and when it has ended."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def on_start(self, job: Job) -> None:
        self._say(f"started {job.notebook}")

    def on_end(self, result: NotebookResult) -> None:
        self._say(in_words(result, result.notebook))

    def finish(self, results: Sequence[NotebookResult], seconds: float) -> None:
        self._say(f"{_counted(Counter(result.status for result in results))} in {seconds:.1f} s")

    def _say(self, line: str) -> None:
        self._stream.write(f"{line}\n")
        self._stream.flush()


def in_words(result: NotebookResult, name: str) -> str:
    """One line about a notebook, and below it why it failed, and what was denied in it."""
    ran = sum(cell.status != "not_run" for cell in result.cells)
    facts = [f"{ran} of {plural(len(result.cells), 'cell')}"]
    if result.runs:
        facts.append(plural(len(result.runs), "run"))
    facts.append("earlier, not run again" if result.earlier else f"{result.seconds:.1f} s")
    word = result.status.replace("_", " ")
    lines = [f"{word if result.status == 'passed' else word.upper():<7} {name}  ({', '.join(facts)})"]
    failed = [cell for cell in result.cells if cell.status == "failed"]
    more = [f"Cell {cell.number}: {_without_traceback(cell.error)}" for cell in failed]
    if result.error and not any(result.error == cell.error for cell in failed):
        more.append(result.error)
    more += [f'{run.run_id} "{run.prompt}": {plural(run.denied, "call")} denied' for run in result.runs if run.denied]
    return "\n".join([*lines, *(f"{_INDENT}{line}" for text in more for line in text.splitlines())])


def _without_traceback(error: str) -> str:
    """The report and the log have all of it."""
    return error.partition("\n---")[0]


def _counted(numbers: Counter[Status]) -> str:
    said = (f"{numbers[status]} {status.replace('_', ' ')}" for status in get_args(Status) if numbers[status])
    return f"{plural(numbers.total(), 'notebook')}: {', '.join(said)}"


class Notebook(NotebookResult):
    """One notebook in the report."""

    name: str
    """The path of its log, without the ending, below the folder of the logs."""
    audit_entries: int = 0
    audit_hash: str = ""
    """The hash of the last entry of its audit trail. Noted here, it tells whether the trail was changed since."""
    audit_fault: str = ""
    """Why its audit trail is not whole; "" if it is."""


class Report(BaseModel):
    """The report, as JSON."""

    version: Literal[1] = 1
    made_at: str
    counts: dict[Status, int]
    """How many notebooks came to what; those that none did are left out."""
    notebooks: tuple[Notebook, ...]

    @property
    def passed(self) -> bool:
        return all(one.status == "passed" and not one.audit_fault for one in self.notebooks)


def collect(logs: Path, expected: Sequence[str]) -> tuple[Report, list[str]]:
    """The report on a folder of logs, and the merged audit trail, the oldest first. Raises `ConfigurationError`."""
    if not logs.is_dir():
        raise ConfigurationError(f"There is no folder {logs}. Give the one of `agent-kernel run --logs`.")
    paths = {path.relative_to(logs).as_posix().removesuffix(SUFFIX): path for path in logs.rglob(f"*{SUFFIX}")}
    if not paths and not expected:
        raise ConfigurationError(f"{logs} has no results (*{SUFFIX}). `agent-kernel run --logs` writes them.")
    notebooks: list[Notebook] = []
    lines: list[Line] = []
    for name in sorted({*paths, *expected}):
        if (path := paths.get(name)) is None:
            notebooks.append(Notebook(name=name, status="not_begun", error=NOT_BEGUN))
            continue
        audit, trail = _audit(name, agent_log_of(log_path(path)))
        lines += trail
        held = is_held(path)  # asked first: what ends in between has written its result
        found = {"name": name, **dict(result_now(path, held=held)), **audit}
        notebooks.append(Notebook.model_validate(found))
    numbers = Counter(one.status for one in notebooks)
    counts = {status: numbers[status] for status in get_args(Status) if numbers[status]}
    return Report(made_at=utc_now(), counts=counts, notebooks=tuple(notebooks)), [text for _, text in sorted(lines)]


def _audit(name: str, log: Path) -> tuple[dict[str, Any], list[Line]]:
    """What `Notebook` says of the audit trail of an agent's log, and its lines. A notebook without an agent has none,
    and that is no fault."""
    try:
        note = read_note(log)
        if not log.is_file():
            lost = {} if note is None else {"audit_fault": f"the log is lost: it had {note.head.number} entries"}
            return lost, []
        with closing(open_to_read(log)[0]) as connection:
            connection.execute("BEGIN")  # one view of the file, even if a kernel writes to it
            if note is not None and (lack := missing(connection, note.head)) is not None:
                return {"audit_fault": f"a trail is lost: {lack}"}, []
            if not has_trail(connection):
                return {}, []
            if (fault := check(connection)) is not None:
                return {"audit_fault": f"entry {fault.number} does not fit: {fault.why}"}, []
            head = trail_head(connection)
            audit = {"audit_entries": head.number, "audit_hash": head.hash if head.number else ""}
            return audit, _lines(name, connection)
    except (sqlite3.Error, OSError, ValueError) as error:
        return {"audit_fault": f"{log.name} can't be read: {error}"}, []


def _lines(name: str, connection: sqlite3.Connection) -> list[Line]:
    lines: list[Line] = []
    for entry in read_entries(connection):
        at = max(str(entry.fields["at"]), lines[-1][0][0] if lines else "")
        text = orjson.dumps(entry.fields | {"notebook": name}, option=orjson.OPT_SORT_KEYS).decode()
        lines.append(((at, name, entry.number), text))
    return lines


def as_text(report: Report) -> str:
    """Each notebook that did not pass, and the numbers."""
    lines: list[str] = []
    for one in report.notebooks:
        if one.status != "passed" or one.audit_fault:
            fault = f"\n{_INDENT}Its audit trail: {one.audit_fault}." if one.audit_fault else ""
            lines.append(f"{in_words(one, one.name)}{fault}")
    broken = sum(bool(one.audit_fault) for one in report.notebooks)
    whole = f"{plural(broken, 'trail')} not whole" if broken else "each trail is whole"
    entries = sum(one.audit_entries for one in report.notebooks)
    counts = _counted(Counter(one.status for one in report.notebooks))
    return "\n".join([*lines, f"{counts}; {entries} audit entries, {whole}"])


def write_junit(results: Mapping[str, NotebookResult], path: Path) -> None:
    """Write results, by name, as JUnit XML, which CI services show: a suite for each notebook, a case for each of its
    code cells. Raises `OSError`."""
    report = JUnitXml("agent-kernel run")
    for name, result in results.items():
        suite = TestSuite(plain(name))
        suite.add_testcases([*_cases(plain(name), result)])
        if result.runs:
            suite.system_out = "\n".join(run.words for run in result.runs)
        report.append(suite)
    report.update_statistics()
    path.parent.mkdir(parents=True, exist_ok=True)
    report.write(str(path), pretty=True)


def _cases(name: str, result: NotebookResult) -> Iterator[TestCase]:
    for cell in result.cells:
        case = TestCase(f"cell {cell.number}", name, cell.seconds)
        match cell.status:
            case "failed":
                case.result = [_fault(Failure, cell.error)]
            case "not_run":
                case.result = [Skipped("The notebook ended before it.")]
        yield case
    if result.error and not any(cell.status == "failed" for cell in result.cells):
        case = TestCase(NOTEBOOK_CASE, name, 0.0)
        case.result = [_fault(Error, result.error)]
        yield case


def _fault(kind: type[Error | Failure], error: str) -> Error | Failure:
    fault = kind(error.partition("\n")[0])
    fault.text = error
    return fault
