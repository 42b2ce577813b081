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


@pytest.fixture(scope="module")
def penguins() -> pd.DataFrame:
    return pd.read_csv(NOTEBOOKS / "data" / "penguins.csv")


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


def test_where_a_script_answers_one_call_is_denied_and_a_person_decides_themselves(demo: Recording) -> None:
    assert [decision.approved for decision in demo.decisions].count(False) == 1
    calls = [(turn.turn.prompt, one.name, one.arguments) for turn in demo.turns for one in turn.turn.answer.calls]
    assert all((one.prompt, one.tool, one.arguments) in calls and one.digest is None for one in demo.decisions)


def test_the_recorded_summary_is_true_of_the_data(demo: Recording, penguins: pd.DataFrame) -> None:
    said = answer(demo, 0, 2)
    counts = penguins["species"].value_counts()
    means = penguins.groupby("species").mean(numeric_only=True)
    assert f"**{len(penguins)} penguins of three species**" in said
    assert f"{penguins['year'].min()} to {penguins['year'].max()}" in said
    for species in ("Adelie", "Gentoo", "Chinstrap"):
        assert f"{counts[species]} {species}" in said
        assert f"{means.loc[species, 'body_mass_g']:,.0f} g" in said
    for column, digits in [("flipper_length_mm", 0), ("bill_length_mm", 1), ("bill_depth_mm", 1)]:
        assert {round(mean, digits) for mean in means[column]} <= set(numbers(said))
    ratios = means.loc["Gentoo", "body_mass_g"] / means.loc[["Adelie", "Chinstrap"], "body_mass_g"]
    assert set(ratios.round(1)) == {1.4}
    incomplete = penguins[penguins.isna().any(axis=1)]
    assert len(incomplete) == incomplete["sex"].isna().sum() == 11
    assert incomplete["body_mass_g"].isna().sum() == 2


def test_the_recorded_correlations_are_true_of_the_data(demo: Recording, penguins: pd.DataFrame) -> None:
    said = answer(demo, 1, 1)
    assert f"r = {penguins['flipper_length_mm'].corr(penguins['body_mass_g']):.2f}" in said
    for species, group in penguins.groupby("species"):
        assert f"{group['flipper_length_mm'].corr(group['body_mass_g']):.2f} for {species}" in said


def test_the_recorded_counts_of_complete_rows_are_true_of_the_data(demo: Recording, penguins: pd.DataFrame) -> None:
    complete = penguins.dropna()
    for step in (1, 2):
        assert {len(complete), len(penguins)} <= set(numbers(answer(demo, 2, step)))
    for species, count in complete["species"].value_counts().items():
        assert f"{count} {species}" in answer(demo, 2, 2)
