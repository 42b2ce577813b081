"""Grades answers by the rule that InfiAgent-DABench publishes, in `examples/DA-Agent/eval_closed_form.py`.

An answer is written `@name[value]`. It is right if it is the label's text, or a number that differs from it by less
than a millionth: the questions say how to round. A name that is given twice has its last value.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
