"""Compares an answer with the data that it speaks of."""

import re

import nbformat

from tests.demos.run import NOTEBOOKS
from tests.demos.script import Script, Turn

_NUMBER = re.compile(
    r"\d|`|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|half|twice|thirds?)\b", re.IGNORECASE
)


def notebook_prose(name: str) -> str:
    """The text of a notebook's Markdown cells."""
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def answers(script: Script) -> list[Turn]:
    """The last turn of each story, in order."""
    return [story.turns[-1] for story in script.stories]


def turns(script: Script, story: int) -> list[Turn]:
    """The turns of a story, in order."""
    return list(script.stories[story].turns)


def check_claims(text: str, *phrases: str) -> None:
    """Each phrase, made from the data by the test, stands in the text, however its lines are broken; and nothing
    is left that is a number or in backticks."""
    left = " ".join(text.split())
    for phrase in phrases:
        assert phrase in left, f"Not in the answer: {phrase!r}\n\n{left}"
        left = left.replace(phrase, " … ")
    unchecked = [found[0] for found in _NUMBER.finditer(left)]
    assert not unchecked, f"Nothing checks {unchecked} in what is left of the answer:\n{left}"
