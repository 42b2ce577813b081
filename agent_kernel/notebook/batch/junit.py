"""Writes results as JUnit XML, which CI services show: a suite for each notebook, a case for each of its code cells."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from junitparser import Error, Failure, Skipped
from junitparser.xunit2 import JUnitXml, TestCase, TestSuite

from agent_kernel.notebook.batch.job import AgentRun, CellResult, count, plain

NOTEBOOK_CASE = "notebook"
"""The case of what is no single cell's fault: a kernel that can't be started, a file that can't be written."""


class Suite(Protocol):
    """What is written of a notebook."""

    @property
    def name(self) -> str: ...
    @property
    def cells(self) -> tuple[CellResult, ...]: ...
    @property
    def runs(self) -> tuple[AgentRun, ...]: ...
    @property
    def seconds(self) -> float: ...
    @property
    def error(self) -> str: ...


def write_junit(results: Sequence[Suite], path: Path) -> None:
    """Write the report. Raises `OSError`."""
    report = JUnitXml("agent-kernel run")
    for result in results:
        suite = TestSuite(plain(result.name))
        suite.add_testcases([*_cases(result)])
        if result.runs:
            suite.system_out = "\n".join(map(_line, result.runs))
        report.append(suite)
    report.update_statistics()
    path.parent.mkdir(parents=True, exist_ok=True)
    report.write(str(path), pretty=True)


def _cases(result: Suite) -> Iterator[TestCase]:
    name = plain(result.name)
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


def _line(run: AgentRun) -> str:
    calls = f"{count(run.calls, 'call')}, {run.denied} denied"
    return f'{run.run_id} "{run.prompt}": {run.status}, {calls}. {run.error}'


def _fault(kind: type[Error | Failure], error: str) -> Error | Failure:
    fault = kind(error.partition("\n")[0])
    fault.text = error
    return fault
