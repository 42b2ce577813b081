"""Writes results as JUnit XML, which CI services show: a suite for each notebook, a case for each of its code cells."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol
from xml.etree import ElementTree as ET

from agent_kernel.notebook.batch.job import AgentRun, CellResult
from agent_kernel.notebook.batch.text import count, plain

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
    root = ET.Element("testsuites", name="agent-kernel run")
    for result in results:
        _suite(root, result)
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    root.set("time", f"{sum(result.seconds for result in results):.3f}")
    ET.indent(root)
    path.parent.mkdir(parents=True, exist_ok=True)
    ET.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _suite(root: ET.Element, result: Suite) -> None:
    name = plain(result.name)
    suite = ET.SubElement(root, "testsuite", name=name, time=f"{result.seconds:.3f}")
    for cell in result.cells:
        _case(suite, name, cell)
    apart = bool(result.error) and not any(cell.status == "failed" for cell in result.cells)
    if apart:
        case = ET.SubElement(suite, "testcase", classname=name, name=NOTEBOOK_CASE, time="0.000")
        _add(case, "error", result.error)
    failures = sum(cell.status == "failed" for cell in result.cells)
    skipped = sum(cell.status == "not_run" for cell in result.cells)
    for attribute, number in (
        ("tests", len(result.cells) + apart),
        ("failures", failures),
        ("errors", int(apart)),
        ("skipped", skipped),
    ):
        suite.set(attribute, str(number))
    if result.runs:
        ET.SubElement(suite, "system-out").text = "\n".join(
            f'{run.run_id} "{run.prompt}": {run.status}, {count(run.calls, "call")}, {run.denied} denied. {run.error}'
            for run in result.runs
        )


def _case(suite: ET.Element, notebook: str, cell: CellResult) -> None:
    name = f"cell {cell.number}"
    case = ET.SubElement(suite, "testcase", classname=notebook, name=name, time=f"{cell.seconds:.3f}")
    match cell.status:
        case "failed":
            _add(case, "failure", cell.error)
        case "not_run":
            ET.SubElement(case, "skipped", message="The notebook ended before it.")


def _add(case: ET.Element, kind: str, error: str) -> None:
    ET.SubElement(case, kind, message=error.partition("\n")[0]).text = error
