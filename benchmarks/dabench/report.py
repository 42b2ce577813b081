"""Grades answers, and writes the report of a run.

The rule is the one that InfiAgent-DABench publishes, in `examples/DA-Agent/eval_closed_form.py`. An answer is written
`@name[value]`. It is right if it is the label's text, or a number that differs from it by less than a millionth: the
questions say how to round. A name that is given twice has its last value.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent_kernel.version import __version__
from benchmarks.dabench.dataset import COMMIT, Question
from benchmarks.dabench.run import Outcome, Settings

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
    """A question that was asked, with what came of it."""

    question: Question
    label: Mapping[str, str]
    outcome: Outcome

    @property
    def right(self) -> dict[str, bool]:
        return grade(self.outcome.text, self.label)


@dataclass(frozen=True, slots=True)
class Report:
    settings: Settings
    questions: int
    """How many there are to ask."""
    asked: Sequence[Graded]
    disputed: Mapping[int, str]
    """Why the answers that are played differ from their labels; empty where a model is asked."""

    @property
    def title(self) -> str:
        """The name of what answered, which stands at every score."""
        return self.settings.model or NO_MODEL

    @property
    def scores(self) -> Scores:
        """A question without an answer is wrong. Upstream's script leaves these out of the count."""
        return score([one.right for one in self.asked])

    @property
    def differing(self) -> list[Graded]:
        return [one for one in self.asked if not all(one.right.values())]

    @property
    def unexplained(self) -> list[int]:
        """The ids of questions whose answers, written as code, differ from their labels, and nothing says why."""
        ids = [one.question.id for one in self.differing if one.question.id not in self.disputed]
        return ids if self.settings.model is None else []


def as_markdown(report: Report) -> str:
    asked = f"{len(report.asked)} of {report.questions} questions"
    parts = [
        f"# InfiAgent-DABench: {report.title}",
        f"{asked}, of commit {COMMIT[:10]}; Agent Kernel {__version__}; calls that ask: `{report.settings.approve}`.",
    ]
    if report.settings.model is None:
        parts.append(
            "No model was asked: these scores say what the notebooks, the kernel, the log and the grading make of "
            "right answers, and how far the labels allow it. They say nothing about how well an agent works."
        )
    parts += [_table(_scores(report)), _table(_totals(report)), _differing(report)]
    if report.unexplained:
        parts.append(f"Not as the label, and not explained: {', '.join(map(str, report.unexplained))}.")
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(rows: Mapping[str, str]) -> str:
    return "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows.items())])


def _scores(report: Report) -> dict[str, str]:
    scores = report.scores
    return {
        "Questions with every answer right (ABQ)": f"{scores.by_question:.2%}",
        "Mean share of a question's answers (PSAQ)": f"{scores.proportional:.2%}",
        "Answers (UASQ)": f"{scores.by_answer:.2%}",
    }


def _totals(report: Report) -> dict[str, str]:
    """The sums over questions; a cost is a lower bound where a price is unknown."""
    outcomes = [one.outcome for one in report.asked]
    summed = {
        name: sum(getattr(outcome, name) for outcome in outcomes)
        for name in ("input_tokens", "output_tokens", "calls", "denied", "failed_calls", "steps", "seconds")
    }
    costs = [outcome.cost for outcome in outcomes if outcome.cost is not None]
    partial = len(costs) < len(outcomes) or any(outcome.cost_is_partial for outcome in outcomes)
    about = "about " if any(outcome.estimated for outcome in outcomes) else ""
    spent = {
        "Cost": f"{'≥ ' if partial else ''}${sum(costs):.4f}" if costs else "no price is known",
        "Tokens in, out": f"{about}{summed['input_tokens']:,}, {summed['output_tokens']:,}",
    }
    ended = Counter(outcome.status for outcome in outcomes)
    return {
        **(spent if report.settings.model is not None else {}),
        "Time of the agent": f"{summed['seconds']:,.1f} s",
        "Model turns": f"{summed['steps']:,}",
        "Tool calls": f"{summed['calls']:,}, {summed['denied']:,} denied, {summed['failed_calls']:,} failed",
        "Runs": ", ".join(f"{count} {status}" for status, count in sorted(ended.items())) or "none",
    }


def _differing(report: Report) -> str:
    """Every answer that is not the label's; long ones are cut."""
    if not report.differing:
        return ""
    lines = ["## Not as the label", "", "| | name | label | answer | |", "| --- | --- | --- | --- | --- |"]
    for one in report.differing:
        answers = read_answers(one.outcome.text)
        why = report.disputed.get(one.question.id) or one.outcome.error.partition("\n")[0]
        for name in (name for name, right in one.right.items() if not right):
            said = f"`{_cell(answers[name])}`" if name in answers else "none"
            row = [str(one.question.id), name, f"`{_cell(one.label[name])}`", said, _cell(why, 300)]
            lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def _cell(text: str, most: int = 60) -> str:
    """A text for a cell of a Markdown table."""
    flat = " ".join(text.replace("|", "\\|").replace("`", "'").split())
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"
