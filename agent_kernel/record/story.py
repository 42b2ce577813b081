"""The content of a record, independent of format: prompt, answer, and each tool call in the model's order."""

import itertools
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

from agent_kernel.protocol.figures import spent
from agent_kernel.protocol.views import MessageView, RunView, ToolCallView, Warning
from agent_kernel.protocol.vocabulary import CUT_BY_LENGTH
from agent_kernel.record import words
from agent_kernel.record.record_outputs import RecordOutput, settled_outputs, shown_outputs
from agent_kernel.record.results import Place, Result, Results, elsewhere, growth
from agent_kernel.tools.builtin.declarations import CHANGES_CELLS
from agent_kernel.tools.review.hidden import reveal
from agent_kernel.tools.review.preview import preview

_SUMMARY = 80
_PLAIN_NOTE = 500
_MOST_CALLS = 1_000
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_SUMMARIES = {
    "run_python": "code",
    "run_shell": "command",
    "insert_cell": "source",
    "edit_cell": "source",
    "delete_cell": "cell_id",
    "move_cell": "cell_id",
    "run_cell": "cell_id",
    "ask_user": "question",
    "inspect_variables": "names",
}
_CODE = ("run_python", "run_shell", "insert_cell", "edit_cell")
_PREAMBLE = re.compile(r"#|import |from \S+ import\b")
"""Matches lines that are comments or imports."""
_ERROR_NAME = re.compile(r"([A-Za-z_][\w.]{0,80})(?::|$)")


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a sentence."""

    text: str
    varies: bool = False
    """Whether it may differ between a run and its replay: who decided, when, how long it took, which model."""
    moment: str = ""
    """The moment that it says in UTC, in ISO 8601; a page shows it in the reader's time."""


@dataclass(frozen=True, slots=True)
class RecordCall:
    tool_name: str
    title: str
    """What it does: `Read`, before its summary `sales.csv`; empty where only the tool's name says it."""
    summary: str
    ending: tuple[Part, ...]
    """The state and its details: `Done, approved by ana`."""
    took: str
    """How long it took, or how old the outcome is that it was given."""
    notes: tuple[str, ...]
    plain_notes: tuple[str, ...]
    """As `notes`, on one line each."""
    output_file: str
    """The sentence that names the file with the whole output; empty for runs of recordings, whose records are
    compared."""
    warnings: tuple[Warning, ...]
    language: str
    code: str
    outputs: tuple[RecordOutput, ...]
    is_open: bool
    cell: int | None = None
    """Its index among the run's code that can become cells, in the order in which it ran."""

    @property
    def elsewhere(self) -> list[str]:
        """The sentences on outputs that are not here: `Shown with the answer: text, table.`"""
        names: dict[Place, dict[str, None]] = {"in sight": {}, "left out": {}, "here": {}}
        for output in self.outputs:
            names[output.place][output.name] = None
        return [said for place, found in names.items() if (said := elsewhere(place, ", ".join(found)))]


@dataclass(frozen=True, slots=True)
class Aside:
    """A text of the model between calls, or a notice of the run."""

    text: str
    detail: str = ""
    """Details to unfold, such as the summary that replaces older messages."""
    varies: bool = False
    """Whether a replay of the run may lack it."""


@dataclass(frozen=True, slots=True)
class Story:
    run_id: str
    opening: str
    """`Agent run: failed.`; empty where the answer opens the record."""
    line: tuple[Part, ...]
    """The model and the policy; of a recording what it did."""
    figures: tuple[Part, ...]
    """Date, duration, tokens and cost; none for runs of recordings, whose records are compared."""
    prompt: str
    answers: tuple[str, ...]
    error: str
    """Why the run failed or was stopped, or that its answer was cut off."""
    never_begun: bool
    """Whether it was stopped while it was queued."""
    transcript: tuple[RecordCall | Aside, ...]
    calls_line: str
    took: str
    """How long each call took; empty for runs of recordings."""
    results: tuple[Result, ...]
    """What calls have shown, which in a notebook are outputs of their own."""

    @property
    def growth(self) -> str:
        """How much larger the results make the notebook, where that is much."""
        return growth(sum(result.size for result in self.results))


def make_story(run: RunView, messages: Sequence[MessageView], tool_calls: Sequence[ToolCallView]) -> Story:
    by_id = {call.tool_call_id: call for call in tool_calls}
    answers: list[str] = []
    items: list[ToolCallView | Aside] = []
    # Notices by the number of the model's turns before them.
    between = [(step.steps, Aside(words.raised(step), varies=True)) for step in run.raises]
    end = _notice_of_end(run) if messages else ""
    between += [(one.steps, Aside(one.content, one.detail)) for one in run.notices if one.content != end]
    between.sort(key=itemgetter(0), reverse=True)
    turns = 0
    for message in messages:
        if message.role != "assistant":
            continue
        while between and between[-1][0] <= turns:
            items.append(between.pop()[1])
        turns += 1
        if message.content.strip():
            if message.tool_calls:
                items.append(Aside(message.content))
            else:
                answers.append(message.content)
        items.extend(by_id.pop(name) for name in message.tool_calls if name in by_id)
    items.extend(by_id.values())
    items.extend(aside for _, aside in reversed(between))
    run_id = "recorded" if run.recorded else run.run_id
    transcript, results = _transcript(items, run, run_id)
    error = f"{words.error_words(run.error)} {run.error.message}".strip() if run.error else end
    is_said = run.status == "complete" and (answers or error)
    return Story(
        run_id=run_id,
        opening="" if is_said else f"Agent run: {words.run_word(run.status)}.",
        line=_line(run, tool_calls),
        figures=() if run.recorded else _figures(run),
        prompt=run.prompt,
        answers=tuple(answers),
        error=error,
        never_begun=run.status == "cancelled" and not messages,
        transcript=transcript,
        calls_line=words.counted(Counter(call.state for call in tool_calls)) if tool_calls else "Notes",
        took="" if run.recorded else _took(transcript),
        results=results.all,
    )


def _line(run: RunView, tool_calls: Sequence[ToolCallView]) -> tuple[Part, ...]:
    """The administration of a run. What a recording did stands first, in place of a model and of a person."""
    approved = words.approved_by_recording(tool_calls)
    first = [Part(approved, varies=True), Part(cost_nothing(run), varies=True)]
    model = Part("" if run.recorded else words.model_words(run), varies=True)
    said = (words.continued_words(run), words.mention_words(run), words.instruction_words(run))
    parts = (*first, model, Part(words.policy_words(run, words.ACTED)), *(Part(text, varies=True) for text in said))
    return _joined(" · ", *parts)


def cost_nothing(run: RunView) -> str:
    """What a recording that answered cost: `Recorded demo: no model is called, it cost nothing`."""
    return f"{words.recorded_words(run)}, it cost nothing" if run.recorded else ""


def text_of(parts: Sequence[Part]) -> str:
    return "".join(part.text for part in parts)


def _joined(separator: str, *parts: Part) -> tuple[Part, ...]:
    """Join what is not empty. A separator varies with the part that it introduces, or follows as the first."""
    joined: list[Part] = []
    for part in parts:
        if part.text:
            joined += [Part(separator, joined[-1].varies or part.varies), part] if joined else [part]
    return tuple(joined)


def _notice_of_end(run: RunView) -> str:
    """The notice that the run was stopped, or that its answer was cut off, which stands before the answer."""
    about_end = words.STOPPED if run.status == "cancelled" else CUT_BY_LENGTH if run.finish_reason == "length" else None
    said = [notice.content for notice in run.notices if about_end and notice.content.startswith(about_end)]
    return said[-1] if said else ""


def _transcript(
    items: list[ToolCallView | Aside], run: RunView, run_id: str
) -> tuple[tuple[RecordCall | Aside, ...], Results]:
    calls = [item for item in items[:_MOST_CALLS] if isinstance(item, ToolCallView)]
    outputs = {number: settled_outputs(call) for number, call in enumerate(calls, 1)}
    failed = {number for number, call in enumerate(calls, 1) if call.state == "error"}
    results = Results(run_id, outputs, failed)
    cells = _cells([item for item in items if isinstance(item, ToolCallView)])
    transcript: list[RecordCall | Aside] = []
    numbers = itertools.count(1)
    for item in items[:_MOST_CALLS]:
        if isinstance(item, ToolCallView):
            number = next(numbers)
            shown = tuple(shown_outputs(item, number, outputs[number], results))
            transcript.append(replace(describe(item, shown, recorded=run.recorded), cell=cells.get(item.tool_call_id)))
        else:
            transcript.append(item)
    if len(items) > _MOST_CALLS:
        transcript.append(Aside(f"{len(items) - _MOST_CALLS} more. {words.LEFT_OUT}"))
    return tuple(transcript), results


def _cells(calls: Sequence[ToolCallView]) -> dict[str, int]:
    """The order in which the successful calls ran, by id."""
    ran = [call for call in calls if call.tool_name == "run_python" and call.state == "success"]
    ran.sort(key=lambda call: call.started_at or call.ended_at or call.created_at)
    return {call.tool_call_id: number for number, call in enumerate(ran, start=1)}


def describe(call: ToolCallView, outputs: tuple[RecordOutput, ...] = (), *, recorded: bool = False) -> RecordCall:
    """A call in the words of the record, also one that has not ended."""
    language, code = code_of(call)
    word = words.STATES[call.state]
    failure = _failure(call)
    who = words.decided(call)
    seen = _seen(call, outputs)
    summary = summary_of(call)
    by = f" {who}".rstrip() if call.state == "denied" else ""
    details = (Part(word), Part(failure), Part(who, varies=True))
    return RecordCall(
        tool_name=call.tool_name,
        title=words.title_of(call.tool_name, summary, None if call.preview is None else call.preview.cell),
        summary=summary,
        ending=(Part(word), Part(by, varies=True)) if by else _joined(", ", *details),
        took=_spent(call),
        notes=(*_notes(call), *seen),
        plain_notes=tuple(_on_one_line(note) for note in (*_notes(call), *seen)),
        output_file=f"The whole output is in {call.output_file}" if call.output_file and not recorded else "",
        warnings=tuple(call.warnings),
        language=language,
        code=code,
        outputs=outputs,
        is_open=call.state in ("denied", "error", "unknown"),
    )


def _spent(call: ToolCallView) -> str:
    """The time that a call took, or how old the outcome is that it was given."""
    if call.cached_at is not None and call.ended_at is not None:
        return words.stored(call.cached_at, call.ended_at)
    return words.duration(call.duration_ms) if call.duration_ms is not None else ""


def summary_of(call: ToolCallView) -> str:
    """A title cut from the arguments, never written by the model."""
    arguments = arguments_of(call)
    if not arguments:
        return ""
    if call.tool_name == "search_files":
        where = arguments.get("pattern", arguments.get("path"))
        return _cut(f'"{arguments.get("query", "")}"' + (f" in {where}" if where else ""))
    argument = _SUMMARIES.get(call.tool_name, "path")
    if argument == "cell_id" and call.preview is not None and call.preview.cell is not None:
        return ""  # the title names the cell by its number
    value = arguments.get(argument)
    if value is None:
        value = next((item for item in arguments.values() if isinstance(item, str)), "")
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    is_code = call.tool_name in _CODE and arguments.get("cell_type") != "markdown"
    return _cut(_first_statement(text) if is_code else text)


def _cut(text: str) -> str:
    line = reveal(_first_line(text))
    # A colon follows the title, so the colon of a Python block is dropped.
    return line.rstrip(" :") if len(line) <= _SUMMARY else f"{line[: _SUMMARY - 3]}..."


def _first_line(text: str) -> str:
    return next((part.strip() for part in text.split("\n") if part.strip()), "")


def _first_statement(code: str) -> str:
    """The first line that is no import or comment, because those do not tell calls apart."""
    lines = [line.strip() for line in code.split("\n") if line.strip()]
    at = 0
    while at < len(lines) and _PREAMBLE.match(lines[at]):
        if lines[at].startswith("from ") and "(" in lines[at]:
            while at < len(lines) and ")" not in lines[at]:
                at += 1
        at += 1
    return lines[at] if at < len(lines) else _first_line(code)


def code_of(call: ToolCallView) -> tuple[str, str]:
    """The call in full: its code, diff or command, else its arguments."""
    shown = call.preview or preview(call.tool_name, call.tool_input)
    if shown is not None:
        is_diff_of_cell = shown.kind == "diff" and call.tool_name in CHANGES_CELLS
        return "diff" if is_diff_of_cell else shown.language, shown.text
    arguments = arguments_of(call)
    if arguments is None:
        return "", call.tool_input
    return ("json", json.dumps(arguments, indent=2, ensure_ascii=False)) if arguments else ("", "")


def arguments_of(call: ToolCallView) -> dict[str, Any] | None:
    """The call's arguments; `None` if they were not valid JSON."""
    try:
        found = json.loads(call.tool_input)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _failure(call: ToolCallView) -> str:
    """The name of the exception, if the last line of the error begins with one."""
    if call.state != "error":
        return ""
    texts = [output.text for output in call.outputs if output.kind == "error"] or [call.result or ""]
    last = next((line for line in reversed(texts[-1].split("\n")) if line.strip()), "").strip()
    match = _ERROR_NAME.match(re.sub(r"\x1b\[[0-9;]*m", "", last).removeprefix("Error: "))
    return match.group(1) if match else ""


def _notes(call: ToolCallView) -> list[str]:
    notes: list[str] = []
    if call.edited:
        notes.append("The call was edited before it was approved.")
    if call.cached_at is not None:
        notes.append(f"{words.CARD['stored']} {words.NOTHING_RAN}")
    reason = f"Reason: {call.reason}" if call.reason else ""
    match call.state:
        case "denied" | "superseded" | "expired":
            # A person writes "not that"; what follows is a sentence of its own.
            stop = "." if reason and reason.rstrip()[-1] not in ".!?…" else ""
            notes.append(f"{reason.rstrip()}{stop} {words.NOTHING_RAN}".strip())
        case "invalid":
            notes.append(f"{call.reason or call.result or ''} {words.MODEL_TOLD}".strip())
        case "cancelled":
            notes.append(reason)
        case "unknown":
            notes.append(f"{call.reason or ''} {words.MAY_HAVE_RUN}".strip())
        case _:
            # The reason of an approval is the person's comment.
            notes.append(reason)
    if call.preview is not None:
        notes += [*call.preview.facts, call.preview.left_out]
    return [note for note in notes if note]


def _seen(call: ToolCallView, outputs: Sequence[RecordOutput]) -> list[str]:
    """A note that the model was given the call's pictures; none if it was not."""
    if not call.seen_images:
        return []
    return [words.seen_pictures(call.seen_images, sum(output.kind == "image" for output in outputs))]


def _on_one_line(note: str) -> str:
    line = " ".join(note.split())
    return line if len(line) <= _PLAIN_NOTE else f"{line[: _PLAIN_NOTE - 3]}..."


def _took(transcript: Sequence[RecordCall | Aside]) -> str:
    """`Time of each step: 0.1 s, 0.3 s, -`: all of it in one place, because it differs from run to run."""
    spent = [item.took for item in transcript if isinstance(item, RecordCall)]
    return f"Time of each step: {', '.join(took or '-' for took in spent)}." if any(spent) else ""


def _figures(run: RunView) -> tuple[Part, ...]:
    started, ended = _moment(run.started_at), _moment(run.ended_at)
    parts: list[Part] = []
    if started is not None:
        date = f"{started.day} {_MONTHS[started.month - 1]} {started.year}, {started:%H:%M} UTC"
        parts.append(Part(date, varies=True, moment=f"{started:%Y-%m-%dT%H:%M:%SZ}"))
    if started is not None and ended is not None and ended >= started:
        parts.append(Part(words.duration((ended - started).total_seconds() * 1000), varies=True))
    said = spent(run.usage)
    if run.usage.total_tokens:
        said[:2] = [f"{said[0].removesuffix(' in')} tokens in, {said[1]}"]
    return _joined(" · ", *parts, *(Part(text, varies=True) for text in said))


def _moment(text: str | None) -> datetime | None:
    try:
        found = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found and found.tzinfo is None else found.astimezone(UTC) if found else None
