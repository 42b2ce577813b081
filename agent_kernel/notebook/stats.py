"""Renders usage and the measures of calls as small tables, for `%agent stats`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape

from agent_kernel.protocol.figures import money
from agent_kernel.protocol.lists import UsageReport, UsageTotals
from agent_kernel.protocol.metrics import CallTotals, MetricsReport
from agent_kernel.record.texts import OUTPUT_LOOK
from agent_kernel.record.words import duration
from agent_kernel.tools.review.hidden import reveal

MOST_ROWS = 10
_HEADS = ("turns", "input", "cached", "output", "cost")
_CALL_HEADS = ("calls", "success", "errors", "asked", "waited", "ran for")
_NAME_CHARACTERS = 60
_BAR_CHARACTERS = 30
_USAGE_NOTE = (
    "Days are in UTC. Cost in US dollars, the service's own figure where it gives one; ≥ where it is not known in "
    "full, empty where nobody is paid."
)
_CALLS_NOTE = "Bars are calls by day. Times are totals: how long calls waited for a person, and how long they ran."


@dataclass(frozen=True, slots=True)
class _Section:
    title: str
    rows: Sequence[tuple[str, Sequence[str]]]
    """Names, and the cells beside them."""
    left_out: int = 0
    route: str = "usage"
    """The route that has the rows that were left out."""


def stats_bundle(usage: UsageReport, metrics: MetricsReport, conversation_id: str) -> dict[str, str]:
    """The reports as a MIME bundle with HTML and plain text. `conversation_id` is the cell's conversation."""
    plain, html = [], []
    if usage.totals.turns:
        sections = [_here(usage, conversation_id), *_lists(usage)]
        plain.append(_plain(_HEADS, sections, _USAGE_NOTE))
        html.append(_html(_HEADS, sections, _USAGE_NOTE))
    else:
        text = f"No model has been asked since {usage.since} (UTC). Recorded runs are not counted: they cost nothing."
        plain.append(text)
        html.append(f"<p>{escape(text)}</p>")
    if metrics.totals.calls:
        sections, plot = _calls(metrics), _plot(metrics)
        plain += [plot, _plain(_CALL_HEADS, sections, _CALLS_NOTE)]
        html += [f"<pre{OUTPUT_LOOK}>{plot}</pre>", _html(_CALL_HEADS, sections, _CALLS_NOTE)]
    return {"text/plain": "\n\n".join(plain), "text/html": "".join(html)}


def _calls(metrics: MetricsReport) -> list[_Section]:
    tools = ((one.tool, _figures(one)) for one in metrics.by_tool)
    return [_Section("", [("All tools", _figures(metrics.totals))]), _section("By tool", tools, "metrics")]


def _figures(totals: CallTotals) -> list[str]:
    counts = (totals.calls, totals.outcomes.get("success", 0), sum(totals.errors.values()), totals.asked)
    waited = duration(totals.wait_seconds * 1000) if totals.asked else ""
    ran = duration(totals.call_seconds * 1000) if totals.ran else ""
    return [*(f"{count:,}" for count in counts), waited, ran]


def _plot(metrics: MetricsReport) -> str:
    """A bar of calls for each of the newest days."""
    days = [one for one in metrics.by_day if one.calls][:MOST_ROWS]
    most = max(one.calls for one in days)
    return "\n".join(f"{one.day}  {'▇' * -(-_BAR_CHARACTERS * one.calls // most)} {one.calls:,}" for one in days)


def _here(report: UsageReport, conversation_id: str) -> _Section:
    here = next((one for one in report.by_conversation if one.conversation_id == conversation_id), None)
    notebook = here.notebook if here is not None else None
    ours = next((one for one in report.by_notebook if notebook is not None and one.notebook == notebook), None)
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    of_today = next((one for one in report.by_day if one.day == today), None)
    rows = [("This conversation", _spent(here or UsageTotals()))]
    if ours is not None:
        rows.append((f"This notebook, {ours.notebook}", _spent(ours)))
    rows.append((f"Today, {today}", _spent(of_today or UsageTotals())))
    rows.append((f"{report.days} days, since {report.since}", _spent(report.totals)))
    return _Section("", rows)


def _lists(report: UsageReport) -> list[_Section]:
    models = ((f"{one.model}, {one.host}" if one.host else one.model, _spent(one)) for one in report.by_model)
    notebooks = ((one.notebook or "none, or deleted", _spent(one)) for one in report.by_notebook)
    days = ((one.day, _spent(one)) for one in report.by_day)
    return [_section("By model", models), _section("By day", days), _section("By notebook", notebooks)]


def _section(title: str, rows: Iterable[tuple[str, Sequence[str]]], route: str = "usage") -> _Section:
    listed = list(rows)
    return _Section(title, listed[:MOST_ROWS], max(0, len(listed) - MOST_ROWS), route)


def _spent(totals: UsageTotals) -> list[str]:
    counts = (totals.turns, totals.input_tokens, totals.cached_tokens, totals.output_tokens)
    return [*(f"{count:,}" for count in counts), _cost(totals)]


def _shown(name: str) -> str:
    shown = reveal(" ".join(name.split()))
    return shown if len(shown) <= _NAME_CHARACTERS else f"…{shown[1 - _NAME_CHARACTERS :]}"


def _cost(totals: UsageTotals) -> str:
    if totals.cost is None:
        return "not known" if totals.cost_is_partial else ""
    return money(totals.cost, at_least=totals.cost_is_partial)


def _more(section: _Section) -> str:
    return f"and {section.left_out} more: GET agent-kernel/api/{section.route}" if section.left_out else ""


def _plain(heads: Sequence[str], sections: Sequence[_Section], note: str) -> str:
    table = [["", *heads]]
    for section in sections:
        table += [[section.title], *([_shown(name), *cells] for name, cells in section.rows), [_more(section)]]
    widths = [max(len(row[column]) for row in table if len(row) > 1) for column in range(len(heads) + 1)]
    lines = [_line(row, widths) for row in table if any(row)]
    return "\n".join([*lines, note])


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    name, *cells = row
    figures = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=False))
    return "  ".join([name.ljust(widths[0]), *figures]).rstrip()


def _html(heads: Sequence[str], sections: Sequence[_Section], note: str) -> str:
    """Without styles, so that it looks like any other table. Its dollar signs must not be read as mathematics."""
    row_of_heads = "".join(f"<th>{head}</th>" for head in ("", *heads))
    parts = [f'<table class="tex2jax_ignore mathjax_ignore"><thead><tr>{row_of_heads}</tr></thead><tbody>']
    for section in sections:
        if section.title:
            parts.append(f'<tr><th colspan="{len(heads) + 1}">{section.title}</th></tr>')
        for row in section.rows:
            name, *cells = map(escape, [_shown(row[0]), *row[1]])
            parts.append(f"<tr><td>{name}</td>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
        if section.left_out:
            parts.append(f'<tr><td colspan="{len(heads) + 1}">{_more(section)}</td></tr>')
    return "".join([*parts, f"</tbody></table><p>{escape(note)}</p>"])
