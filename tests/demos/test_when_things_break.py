"""What `notebooks/when-things-break.ipynb` says is true of the data."""

import pandas as pd
import pytest

from tests.demos.claims import answers, check_claims, notebook_prose
from tests.demos.run import NOTEBOOKS
from tests.demos.stories.when_things_break import SCRIPT


@pytest.fixture(scope="module")
def penguins() -> pd.DataFrame:
    return pd.read_csv(NOTEBOOKS / "data" / "penguins.csv")


def test_the_heaviest_island(penguins: pd.DataFrame) -> None:
    mass = penguins.groupby("island")["body_mass_g"].mean()
    check_claims(
        answers(SCRIPT)[0].content,
        f"On **{mass.idxmax()}**: {mass['Biscoe']:,.0f} g on average",
        f"{mass['Dream']:,.0f} g on Dream and {mass['Torgersen']:,.0f} g on Torgersen",
    )


@pytest.mark.parametrize("story", [1, 2])
def test_the_species_on_the_islands(penguins: pd.DataFrame, story: int) -> None:
    count = penguins.groupby("island")["species"].value_counts()
    everywhere = penguins["species"].value_counts()
    assert penguins.groupby("species")["body_mass_g"].mean().idxmax() == "Gentoo"
    assert count["Biscoe", "Gentoo"] == everywhere["Gentoo"], "on this island only"
    dream, torgersen = count["Dream"], count["Torgersen"]
    assert set(dream.index) == {"Chinstrap", "Adelie"}
    assert set(torgersen.index) == {"Adelie"}
    numbers = (
        f"{count['Biscoe', 'Gentoo']} of its {count['Biscoe'].sum()} penguins",
        f"{dream['Chinstrap']} Chinstrap and {dream['Adelie']} Adelie, on Torgersen {torgersen['Adelie']} Adelie",
    )
    check_claims(answers(SCRIPT)[story].content, *(numbers if story == 2 else ()))


def test_the_data_end_before_the_year_that_is_waited_for(penguins: pd.DataFrame) -> None:
    assert penguins["year"].max() == 2009
    assert "The data end in 2009" in notebook_prose("when-things-break")
    assert "2010" in SCRIPT.stories[3].prompt
