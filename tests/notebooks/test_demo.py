"""The demo's notebook, its recording and its data fit together, and what is recorded is true."""

import re
from pathlib import Path

import nbformat
import pandas as pd
import pytest

from agent_kernel.models.cassette import Cassette, RecordedConversation, load_cassette, normalized_prompt
from agent_kernel.models.replay import DEMO_CASSETTE

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


@pytest.fixture(scope="module")
def cassette() -> Cassette:
    return load_cassette(DEMO_CASSETTE)


@pytest.fixture(scope="module")
def penguins() -> pd.DataFrame:
    return pd.read_csv(NOTEBOOKS / "data" / "penguins.csv")


def prompts() -> list[str]:
    notebook = nbformat.read(NOTEBOOKS / "quickstart.ipynb", as_version=4)
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return [source.partition("\n")[2] for source in cells if source.startswith("%%agent")]


def answer(conversation: RecordedConversation, step: int, after: str) -> str:
    (turn,) = [turn for turn in conversation.turns if (turn.step, turn.after) == (step, after)]
    return turn.content


def numbers(text: str) -> list[float]:
    return [float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?:\.\d+)?", text)]


def test_each_agent_cell_of_the_quickstart_has_a_recorded_conversation(cassette: Cassette) -> None:
    recorded = [normalized_prompt(conversation.prompt) for conversation in cassette.conversations]
    assert [normalized_prompt(prompt) for prompt in prompts()] == recorded


def test_a_recorded_answer_is_there_whatever_the_user_decides(cassette: Cassette) -> None:
    for conversation in cassette.conversations:
        for turn in conversation.turns:
            if turn.tool_calls:
                followed = {other.after for other in conversation.turns if other.step == turn.step + 1}
                assert {"success", "denied", "error"} <= followed, (conversation.prompt, turn.step)


def test_one_step_asks_for_two_calls_at_once(cassette: Cassette) -> None:
    assert any(len(turn.tool_calls) == 2 for one in cassette.conversations for turn in one.turns)


def test_one_call_is_denied_when_a_script_answers(cassette: Cassette) -> None:
    decisions = [decision for one in cassette.conversations for decision in one.decisions]
    assert [decision.approved for decision in decisions].count(False) == 1


def test_the_recorded_summary_is_true_of_the_data(cassette: Cassette, penguins: pd.DataFrame) -> None:
    said = answer(cassette.conversations[0], 2, "success")
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


def test_the_recorded_correlations_are_true_of_the_data(cassette: Cassette, penguins: pd.DataFrame) -> None:
    said = answer(cassette.conversations[1], 1, "success")
    assert f"r = {penguins['flipper_length_mm'].corr(penguins['body_mass_g']):.2f}" in said
    for species, group in penguins.groupby("species"):
        assert f"{group['flipper_length_mm'].corr(group['body_mass_g']):.2f} for {species}" in said


def test_the_recorded_counts_of_complete_rows_are_true_of_the_data(cassette: Cassette, penguins: pd.DataFrame) -> None:
    complete = penguins.dropna()
    for step, after in [(1, "success"), (2, "success")]:
        assert {len(complete), len(penguins)} <= set(numbers(answer(cassette.conversations[2], step, after)))
    for species, count in complete["species"].value_counts().items():
        assert f"{count} {species}" in answer(cassette.conversations[2], 2, "success")
