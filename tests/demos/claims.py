"""Compares an answer with the data that it speaks of."""

import itertools
import re

import nbformat

from agent_kernel.models.recordings.format import Turn, load
from tests.demos.run import NOTEBOOKS, RECORDINGS

_NUMBER = re.compile(
    r"\d|`|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|half|twice|thirds?)\b", re.IGNORECASE
)


def notebook_prose(name: str) -> str:
    """The text of a notebook's Markdown cells."""
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def stories(name: str) -> list[list[Turn]]:
    """The turns of a notebook's recording by prompt."""
    turns = [placed.turn for placed in load(RECORDINGS / f"{name}.jsonl").turns]
    return [list(story) for _, story in itertools.groupby(turns, key=lambda turn: turn.prompt)]


def answers(name: str) -> list[str]:
    """What is said last to each prompt, in order."""
    return [story[-1].answer.content for story in stories(name)]


def check_claims(text: str, *phrases: str) -> None:
    """Each phrase, made from the data by the test, stands in the text, however its lines are broken; and nothing
    is left that is a number or in backticks."""
    left = " ".join(text.split())
    for phrase in phrases:
        assert phrase in left, f"Not in the answer: {phrase!r}\n\n{left}"
        left = left.replace(phrase, " … ")
    unchecked = [found[0] for found in _NUMBER.finditer(left)]
    assert not unchecked, f"Nothing checks {unchecked} in what is left of the answer:\n{left}"
