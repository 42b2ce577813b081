"""A batch's report as text: for a terminal, and as a table in Markdown."""

from agent_kernel.notebook.batch.job import Status
from agent_kernel.notebook.batch.report import Notebook, Report
from agent_kernel.notebook.batch.text import count

WORDS: dict[Status, str] = {
    "passed": "passed",
    "failed": "failed",
    "stopped": "stopped",
    "unknown": "unknown",
    "running": "running",
    "not_begun": "not begun",
}
_ESCAPED = str.maketrans({**{mark: f"\\{mark}" for mark in "\\|`[*_~"}, "&": "&amp;", "<": "&lt;", "\n": " "})


def as_text(report: Report) -> str:
    """The numbers, and a line for each notebook that did not pass."""
    said = ", ".join(f"{number} {WORDS[status]}" for status, number in report.counts.items())
    lines = [_in_short(one) for one in report.notebooks if one.status != "passed" or one.audit_fault]
    entries = sum(one.audit_entries for one in report.notebooks)
    broken = sum(bool(one.audit_fault) for one in report.notebooks)
    whole = f"{count(broken, 'trail')} not whole" if broken else "each trail is whole"
    audit = f"{entries} audit entries, {whole}"
    return "\n".join([*lines, f"{count(len(report.notebooks), 'notebook')}: {said}; {audit}"])


def _in_short(one: Notebook) -> str:
    facts = [_why(one), *([f"Its audit trail: {one.audit_fault}."] if one.audit_fault else [])]
    return f"{WORDS[one.status]:<9} {one.name}  {' '.join(filter(None, facts))}"


def _why(one: Notebook) -> str:
    """Why the notebook did not pass, in one line."""
    for cell in one.cells:
        if cell.status == "failed":
            return f"Cell {cell.number}: {_first(cell.error)}"
    return _first(one.error)


def _first(text: str) -> str:
    return text.partition("\n")[0]


def as_markdown(report: Report) -> str:
    """A table with a row for each notebook, those first that did not pass."""
    said = ", ".join(f"{number} {WORDS[status]}" for status, number in report.counts.items())
    head = ["| notebook | | cells | runs | calls | denied | audit | |", "|---|---|--:|--:|--:|--:|--:|---|"]
    rows = sorted(report.notebooks, key=lambda one: (one.status == "passed" and not one.audit_fault, one.name))
    return "\n".join([f"**{count(len(report.notebooks), 'notebook')}: {said}**", "", *head, *map(_row, rows)])


def _row(one: Notebook) -> str:
    ran = sum(cell.status != "not_run" for cell in one.cells)
    calls, denied = sum(run.calls for run in one.runs), sum(run.denied for run in one.runs)
    audit = "**not whole**" if one.audit_fault else str(one.audit_entries)
    said = " ".join(filter(None, (_why(one), one.audit_fault)))
    status = WORDS[one.status] if one.status == "passed" else f"**{WORDS[one.status]}**"
    cells = [_plain(one.name), status, f"{ran}/{len(one.cells)}", len(one.runs), calls, denied, audit, _plain(said)]
    return f"| {' | '.join(map(str, cells))} |"


def _plain(text: str) -> str:
    """Text of notebooks in a table of Markdown, as text and nothing else."""
    return text.translate(_ESCAPED)
