"""The demo's notebook, its recording and its data fit together, and what is recorded is true."""

import re
from pathlib import Path

import nbformat
import pandas as pd
import pytest

from agent_kernel.models.recordings.asked import Reader
from agent_kernel.models.recordings.format import Recording, Turn, load
from agent_kernel.models.resolver import DEMO

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


@pytest.fixture(scope="module")
def demo() -> Recording:
    return load(DEMO)


def prompts() -> list[str]:
    """Those of the quickstart, as a recording has them."""
    notebook = nbformat.read(NOTEBOOKS / "quickstart.ipynb", as_version=4)
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return [Reader().prompt(source.partition("\n")[2]) for source in cells if source.startswith("%%agent")]


def turns(demo: Recording, prompt: str) -> list[Turn]:
    return [one.turn for one in demo.turns if one.turn.prompt == prompt]


def answer(demo: Recording, cell: int, step: int) -> str:
    (turn,) = [turn for turn in turns(demo, prompts()[cell]) if (turn.step, turn.after) == (step, "success")]
    return turn.answer.content


def numbers(text: str) -> list[float]:
    return [float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?:\.\d+)?", text)]


def test_each_agent_cell_of_the_quickstart_has_an_answer_to_whatever_the_user_decides(demo: Recording) -> None:
    assert prompts() == list(dict.fromkeys(one.turn.prompt for one in demo.turns))
    for prompt in prompts():
        steps = turns(demo, prompt)
        assert [turn.step for turn in steps if turn.after == "start"] == [0]
        for turn in steps:
            followed = {other.after for other in steps if other.step == turn.step + 1}
            assert not turn.answer.calls or {"success", "denied", "error"} <= followed, (prompt, turn.step)


def test_the_recorded_answers_are_true_of_the_data(demo: Recording) -> None:
    penguins = pd.read_csv(NOTEBOOKS / "data" / "penguins.csv")
    complete = penguins.dropna()
    summary, correlations, counts = answer(demo, 0, 2), answer(demo, 1, 1), answer(demo, 2, 2)
    assert f"**{len(penguins)} penguins of three species**" in summary
    assert f"r = {penguins['flipper_length_mm'].corr(penguins['body_mass_g']):.2f}" in correlations
    for species, group in penguins.groupby("species"):
        assert f"{len(group)} {species}" in summary
        assert f"{group['body_mass_g'].mean():,.0f} g" in summary
        for column, digits in [("flipper_length_mm", 0), ("bill_length_mm", 1), ("bill_depth_mm", 1)]:
            assert round(group[column].mean(), digits) in numbers(summary)
        assert f"{group['flipper_length_mm'].corr(group['body_mass_g']):.2f} for {species}" in correlations
        assert f"{(complete['species'] == species).sum()} {species}" in counts
    for step in (1, 2):
        assert {len(complete), len(penguins)} <= set(numbers(answer(demo, 2, step)))


def test_where_a_script_answers_one_call_is_denied_and_a_person_decides_themselves(demo: Recording) -> None:
    assert [decision.approved for decision in demo.decisions].count(False) == 1
    calls = [(turn.turn.prompt, one.name, one.arguments) for turn in demo.turns for one in turn.turn.answer.calls]
    assert all((one.prompt, one.tool, one.arguments) in calls and one.digest is None for one in demo.decisions)
