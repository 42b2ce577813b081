"""Renders usage as a small table, for `%agent stats`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape

from agent_kernel.protocol.figures import money
from agent_kernel.protocol.lists import UsageReport, UsageTotals
from agent_kernel.tools.review.hidden import reveal

MOST_ROWS = 10
_HEADS = ("turns", "input", "cached", "output", "cost")
_NAME_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class _Section:
    title: str
    rows: Sequence[tuple[str, UsageTotals]]
    left_out: int = 0


def stats_bundle(report: UsageReport, conversation_id: str) -> dict[str, str]:
    """The report as a MIME bundle with HTML and plain text. `conversation_id` is the cell's conversation."""
    if not report.totals.turns:
        text = f"No model has been asked since {report.since} (UTC). Recorded runs are not counted: they cost nothing."
        return {"text/plain": text, "text/html": f"<p>{escape(text)}</p>"}
    sections = [_here(report, conversation_id), *_lists(report)]
    note = (
        "Days are in UTC. Cost in US dollars, the service's own figure where it gives one; ≥ where it is not known in "
        "full, empty where nobody is paid."
    )
    return {"text/plain": _plain(sections, note), "text/html": _html(sections, note)}


def _here(report: UsageReport, conversation_id: str) -> _Section:
    here = next((one for one in report.by_conversation if one.conversation_id == conversation_id), None)
    notebook = here.notebook if here is not None else None
    ours = next((one for one in report.by_notebook if notebook is not None and one.notebook == notebook), None)
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    of_today = next((one for one in report.by_day if one.day == today), None)
    rows = [("This conversation", here or UsageTotals())]
    if ours is not None:
        rows.append((f"This notebook, {ours.notebook}", ours))
    rows.append((f"Today, {today}", of_today or UsageTotals()))
    rows.append((f"{report.days} days, since {report.since}", report.totals))
    return _Section("", rows)


def _lists(report: UsageReport) -> list[_Section]:
    models = ((f"{one.model}, {one.host}" if one.host else one.model, one) for one in report.by_model)
    notebooks = ((one.notebook or "none, or deleted", one) for one in report.by_notebook)
    days = ((one.day, one) for one in report.by_day)
    return [_section("By model", models), _section("By day", days), _section("By notebook", notebooks)]


def _section(title: str, rows: Iterable[tuple[str, UsageTotals]]) -> _Section:
    listed = list(rows)
    return _Section(title, listed[:MOST_ROWS], max(0, len(listed) - MOST_ROWS))


def _cells(name: str, totals: UsageTotals) -> list[str]:
    shown = reveal(" ".join(name.split()))
    counts = (totals.turns, totals.input_tokens, totals.cached_tokens, totals.output_tokens)
    return [
        shown if len(shown) <= _NAME_CHARACTERS else f"…{shown[1 - _NAME_CHARACTERS :]}",
        *(f"{count:,}" for count in counts),
        _cost(totals),
    ]


def _cost(totals: UsageTotals) -> str:
    if totals.cost is None:
        return "not known" if totals.cost_is_partial else ""
    return money(totals.cost, at_least=totals.cost_is_partial)


def _more(section: _Section) -> str:
    return f"and {section.left_out} more: GET agent-kernel/api/usage" if section.left_out else ""


def _plain(sections: Sequence[_Section], note: str) -> str:
    table = [["", *_HEADS]]
    for section in sections:
        table += [[section.title], *(_cells(*row) for row in section.rows), [_more(section)]]
    widths = [max(len(row[column]) for row in table if len(row) > 1) for column in range(len(_HEADS) + 1)]
    lines = [_line(row, widths) for row in table if any(row)]
    return "\n".join([*lines, note])


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    name, *cells = row
    figures = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=False))
    return "  ".join([name.ljust(widths[0]), *figures]).rstrip()


def _html(sections: Sequence[_Section], note: str) -> str:
    """Without styles, so that it looks like any other table. Its dollar signs must not be read as mathematics."""
    heads = "".join(f"<th>{head}</th>" for head in ("", *_HEADS))
    parts = [f'<table class="tex2jax_ignore mathjax_ignore"><thead><tr>{heads}</tr></thead><tbody>']
    for section in sections:
        if section.title:
            parts.append(f'<tr><th colspan="{len(_HEADS) + 1}">{section.title}</th></tr>')
        for row in section.rows:
            name, *cells = map(escape, _cells(*row))
            parts.append(f"<tr><td>{name}</td>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
        if section.left_out:
            parts.append(f'<tr><td colspan="{len(_HEADS) + 1}">{_more(section)}</td></tr>')
    return "".join([*parts, f"</tbody></table><p>{escape(note)}</p>"])
