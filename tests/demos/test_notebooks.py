"""Every demo notebook: its prompts are recorded, and its outputs could be anybody's."""

import re

import nbformat
import pytest

from agent_kernel.models.recordings.asked import Reader
from agent_kernel.models.recordings.format import load
from tests.demos.run import NAMES, NOTEBOOKS, RECORDINGS, stories

SHOWN = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))
NOT_ANYBODYS = re.compile(
    r"site-packages|/home/|/root/|/tmp/|[A-Z]:\\|"  # paths
    r"\b0x[0-9a-f]{6,}|\b[0-9a-f]{8}-[0-9a-f]{4}-|\b[0-9A-HJKMNP-TV-Z]{26}\b|"  # addresses, ids
    r"\d\d:\d\d:\d\d|\b(?:19[89]|20[2-9])\d-\d\d-\d\dT",  # times
)

OTHERWISE = re.compile("--allow-failure|--record")
"""Options of prompts that the notebook's recording does not answer, on purpose."""


def notebook(name: str) -> nbformat.NotebookNode:
    return nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)


@pytest.mark.parametrize("name", NAMES)
def test_a_reader_decides_and_a_test_does_not(name: str) -> None:
    """Decisions count for exactly their calls. Without a digest they leave a person who is there to decide."""
    for decision in load(RECORDINGS / f"{name}.jsonl").decisions:
        assert decision.digest is None
        assert decision.tool
        assert decision.arguments


@pytest.mark.parametrize("name", NAMES)
def test_each_prompt_of_a_cell_is_recorded(name: str) -> None:
    recorded = {story[0].prompt for story in stories(name)}
    cells = [cell.source for cell in notebook(name).cells if cell.cell_type == "code"]
    asked = [source.partition("\n") for source in cells if source.startswith("%%agent")]
    meant = {Reader().prompt(prompt) for line, _, prompt in asked if not OTHERWISE.search(line)}
    assert meant <= recorded


@pytest.mark.parametrize("name", NAMES)
def test_the_saved_notebook_has_the_answer_of_each_story(name: str) -> None:
    saved = "\n".join(_texts(output) for cell in notebook(name).cells for output in cell.get("outputs", []))
    for *_, last in stories(name):
        if not last.answer.calls:  # a budget stopped it otherwise
            assert " ".join(last.answer.content.split()) in " ".join(saved.split())


@pytest.mark.parametrize("name", SHOWN)
def test_the_saved_outputs_name_no_machine_no_time_and_no_id(name: str) -> None:
    for cell in notebook(name).cells:
        for output in cell.get("outputs", []):
            assert not (found := NOT_ANYBODYS.search(_texts(output))), (cell.source, found)


def _texts(output: nbformat.NotebookNode) -> str:
    if output.output_type == "stream":
        return str(output.text)
    if output.output_type == "error":
        return "\n".join([output.ename, output.evalue, *output.traceback])
    return "\n".join(str(text) for mime, text in output.data.items() if mime.startswith("text/"))
