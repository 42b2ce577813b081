"""Compares an answer with the data that it speaks of."""

import re

import nbformat

from agent_kernel.models.cassette import Cassette, RecordedTurn
from tests.demos.run import NOTEBOOKS

_NUMBER = re.compile(
    r"\d|`|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|half|twice|thirds?)\b", re.IGNORECASE
)


def notebook_prose(name: str) -> str:
    """The text of a notebook's Markdown cells."""
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def answers(recording: Cassette) -> list[RecordedTurn]:
    """The last turn of each story, in order."""
    return [conversation.turns[-1] for conversation in recording.conversations]


def turns(recording: Cassette, story: int) -> list[RecordedTurn]:
    """The turns of a story, in order."""
    return list(recording.conversations[story].turns)


def check_claims(text: str, *phrases: str) -> None:
    """Each phrase, made from the data by the test, stands in the text, however its lines are broken; and nothing
    is left that is a number or in backticks."""
    left = " ".join(text.split())
    for phrase in phrases:
        assert phrase in left, f"Not in the answer: {phrase!r}\n\n{left}"
        left = left.replace(phrase, " … ")
    unchecked = [found[0] for found in _NUMBER.finditer(left)]
    assert not unchecked, f"Nothing checks {unchecked} in what is left of the answer:\n{left}"
