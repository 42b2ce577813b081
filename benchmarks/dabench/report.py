"""Grades answers, and makes the report of a run: `report.json` with everything, and `report.md` to be read.

The rule is the one that InfiAgent-DABench publishes, in `examples/DA-Agent/eval_closed_form.py`. An answer is written
`@name[value]`. It is right if it is the label's text, or a number that differs from it by less than a millionth: the
questions say how to round. A name that is given twice has its last value.
"""

import json
import platform
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent_kernel.version import __version__
from benchmarks.dabench.dataset import COMMIT, Question
from benchmarks.dabench.run import Outcome, Settings

JSON = "report.json"
MARKDOWN = "report.md"
NO_MODEL = "answers written as code, no model"
TOLERANCE = 1e-6
_ANSWER = re.compile(r"@(\w+)\[(.*?)\]")


@dataclass(frozen=True, slots=True)
class Scores:
    """Shares between 0 and 1, rounded to four places as upstream does. Their names are the paper's."""

    by_question: float
    """ABQ: the share of questions of which every answer is right."""
    proportional: float
    """PSAQ: the mean, over questions, of the share of a question's answers that are right."""
    by_answer: float
    """UASQ: the share of all answers that are right."""


def read_answers(text: str) -> dict[str, str]:
    """The answers in a text, by name."""
    return dict(_ANSWER.findall(text))


def is_right(answer: str | None, label: str) -> bool:
    if answer is None or answer == label:
        return answer == label
    try:
        return abs(float(answer) - float(label)) < TOLERANCE
    except ValueError:
        return False


def grade(text: str, label: Mapping[str, str]) -> dict[str, bool]:
    """Which of the label's answers a text has right, by name. What else it answers does not count."""
    answers = read_answers(text)
    return {name: is_right(answers.get(name), expected) for name, expected in label.items()}


def score(graded: Sequence[Mapping[str, bool]]) -> Scores:
    """The scores of graded questions, each with one answer or more; zeros if there are none."""
    if not graded:
        return Scores(0.0, 0.0, 0.0)
    right = [sum(question.values()) for question in graded]
    answers = sum(len(question) for question in graded)
    return Scores(
        by_question=round(sum(all(question.values()) for question in graded) / len(graded), 4),
        proportional=round(sum(sum(one.values()) * (1 / len(one)) for one in graded) / len(graded), 4),
        by_answer=round(sum(right) / answers, 4),
    )


@dataclass(frozen=True, slots=True)
class Graded:
    """A question with what came of it."""

    question: Question
    label: Mapping[str, str]
    outcome: Outcome | None
    """`None` where it was not asked: the run was stopped."""

    @property
    def right(self) -> dict[str, bool]:
        return grade(self.outcome.text if self.outcome is not None else "", self.label)

    @property
    def answers(self) -> dict[str, str]:
        return read_answers(self.outcome.text) if self.outcome is not None else {}

    @property
    def verdict(self) -> str:
        if self.outcome is None:
            return "not asked"
        if not self.outcome.text:
            return "no answer"
        right = sum(self.right.values())
        return "right" if right == len(self.label) else "partly right" if right else "wrong"


@dataclass(frozen=True, slots=True)
class Report:
    settings: Settings
    graded: Sequence[Graded]
    disputed: Mapping[int, str]
    """Why the answers that are played differ from their labels; empty where a model is asked."""

    @property
    def title(self) -> str:
        """The name of what answered, which stands at every score."""
        return self.settings.model or NO_MODEL

    @property
    def asked(self) -> list[Graded]:
        return [one for one in self.graded if one.outcome is not None]

    @property
    def scores(self) -> Scores:
        """Of all questions that were asked: one without an answer is wrong."""
        return score([one.right for one in self.asked])

    @property
    def upstream_scores(self) -> Scores:
        """Upstream leaves questions out of the count that have no answer at all."""
        return score([one.right for one in self.asked if one.outcome is not None and one.outcome.text])

    @property
    def differing(self) -> list[Graded]:
        return [one for one in self.asked if one.verdict != "right"]

    @property
    def unexplained(self) -> list[int]:
        """The ids of questions whose answers, written as code, differ from their labels, and nothing says why."""
        ids = [one.question.id for one in self.differing if one.question.id not in self.disputed]
        return ids if self.settings.model is None else []


def write_report(report: Report, folder: Path) -> None:
    (folder / JSON).write_text(json.dumps(as_json(report), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / MARKDOWN).write_text(as_markdown(report), encoding="utf-8")


def as_json(report: Report) -> dict[str, Any]:
    return {
        "answered_by": report.title,
        "settings": report.settings.model_dump(),
        "written_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "agent_kernel": __version__,
        "python": platform.python_version(),
        "dabench_commit": COMMIT,
        "questions": len(report.graded),
        "asked": len(report.asked),
        "scores": asdict(report.scores),
        "scores_as_upstream_counts": asdict(report.upstream_scores),
        "totals": totals(report),
        "by_question": [_question(one, report) for one in report.graded],
    }


def _question(one: Graded, report: Report) -> dict[str, Any]:
    return {
        "id": one.question.id,
        "table": one.question.file_name,
        "level": one.question.level,
        "concepts": one.question.concepts,
        "verdict": one.verdict,
        "label": dict(one.label),
        "answers": one.answers,
        "right": one.right,
        "disputed": report.disputed.get(one.question.id),
        "outcome": one.outcome.model_dump() if one.outcome is not None else None,
    }


def totals(report: Report) -> dict[str, Any]:
    """The sums over questions; a cost is a lower bound where a price is unknown, and `None` if all are."""
    outcomes = [one.outcome for one in report.asked if one.outcome is not None]
    costs = [outcome.cost for outcome in outcomes if outcome.cost is not None]
    summed = ("input_tokens", "output_tokens", "calls", "denied", "failed_calls", "steps")
    return {
        "cost": round(sum(costs), 6) if costs else None,
        "cost_is_partial": bool(costs)
        and (len(costs) < len(outcomes) or any(outcome.cost_is_partial for outcome in outcomes)),
        "tokens_are_estimated": any(outcome.estimated for outcome in outcomes),
        "seconds": round(sum(outcome.seconds for outcome in outcomes), 1),
        "notebook_seconds": round(sum(outcome.notebook_seconds for outcome in outcomes), 1),
        **{name: sum(getattr(outcome, name) for outcome in outcomes) for name in summed},
        "by_status": dict(Counter(outcome.status for outcome in outcomes)),
    }


def as_markdown(report: Report) -> str:
    parts = [
        f"# InfiAgent-DABench: {report.title}",
        _circumstances(report),
        _scores(report),
        _totals(report),
        _groups("Level", [((one.question.level,), one) for one in report.asked]),
        _groups("Concept", [(one.question.concepts, one) for one in report.asked]),
        _differing(report),
        _left(report),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _circumstances(report: Report) -> str:
    asked = f"{len(report.asked)} of {len(report.graded)} questions"
    lines = [
        f"{asked}, of commit {COMMIT[:10]}; Agent Kernel {__version__}; calls that ask: `{report.settings.approve}`."
    ]
    if report.settings.model is None:
        lines.append(
            "No model was asked: these scores say what the notebooks, the kernel, the log and the grading make of "
            "right answers, and how far the labels allow it. They say nothing about how well an agent works."
        )
    return "\n\n".join(lines)


def _scores(report: Report) -> str:
    ours, theirs = report.scores, report.upstream_scores
    names = {
        "by_question": "Questions with every answer right (ABQ)",
        "proportional": "Mean share of a question's answers (PSAQ)",
        "by_answer": "Answers (UASQ)",
    }
    lines = [f"| {report.title} | of those asked | as upstream counts |", "| --- | --- | --- |"]
    lines += [f"| {words} | {getattr(ours, name):.2%} | {getattr(theirs, name):.2%} |" for name, words in names.items()]
    return "\n".join([*lines, "", "Upstream's script leaves out questions that have no answer at all."])


def _totals(report: Report) -> str:
    sums = totals(report)
    statuses = ", ".join(f"{count} {status}" for status, count in sorted(sums["by_status"].items()))
    rows = {
        "Time of the agent": f"{sums['seconds']:,.1f} s",
        "Time of the notebooks, with their kernels": f"{sums['notebook_seconds']:,.1f} s",
        "Model turns": f"{sums['steps']:,}",
        "Tool calls": f"{sums['calls']:,}, {sums['denied']:,} denied, {sums['failed_calls']:,} failed",
        "Runs": statuses or "none",
    }
    if report.settings.model is not None:
        rows = {**_spent(sums), **rows}
    return "\n".join(["| In all | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows.items())])


def _spent(sums: Mapping[str, Any]) -> dict[str, str]:
    about = "about " if sums["tokens_are_estimated"] else ""
    cost = "no price is known"
    if sums["cost"] is not None:
        cost = f"{'≥ ' if sums['cost_is_partial'] else ''}${sums['cost']:.4f}"
    return {"Cost": cost, "Tokens in, out": f"{about}{sums['input_tokens']:,}, {sums['output_tokens']:,}"}


def _groups(title: str, members: Sequence[tuple[Sequence[str], Graded]]) -> str:
    """The share of questions that are right, in groups that may overlap."""
    groups: dict[str, list[bool]] = {}
    for names, one in members:
        for name in names:
            groups.setdefault(name, []).append(one.verdict == "right")
    rows = [f"| {name} | {sum(right)} of {len(right)} |" for name, right in sorted(groups.items())]
    return "\n".join([f"| {title} | questions right |", "| --- | --- |", *rows]) if rows else ""


def _differing(report: Report) -> str:
    """Every question whose answers are not the label's; long answers are cut."""
    if not report.differing:
        return ""
    lines = ["## Not as the label", "", "| | | name | label | answer | |", "| --- | --- | --- | --- | --- | --- |"]
    for one in report.differing:
        assert one.outcome is not None
        why = report.disputed.get(one.question.id) or one.outcome.error.partition("\n")[0]
        for name in (name for name, right in one.right.items() if not right):
            answer = one.answers.get(name)
            said = "none" if answer is None else f"`{_cell(answer)}`"
            row = [str(one.question.id), one.verdict, name, f"`{_cell(one.label[name])}`", said, _cell(why, 300)]
            lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def _left(report: Report) -> str:
    lines = []
    if stopped := [one.question.id for one in report.graded if one.outcome is None]:
        lines.append(f"Not asked yet: {_list(stopped)}. The same command goes on with them.")
    if report.unexplained:
        lines.append(f"Not as the label, and not explained: {_list(report.unexplained)}.")
    return "\n\n".join(lines)


def _cell(text: str, most: int = 60) -> str:
    """A text for a cell of a Markdown table."""
    flat = " ".join(text.replace("|", "\\|").replace("`", "'").split())
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"


def _list(items: Iterable[object]) -> str:
    return ", ".join(map(str, items))
