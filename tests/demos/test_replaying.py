"""What `notebooks/replaying.ipynb` says is true of the data."""

import pandas as pd
import pytest

from tests.demos.claims import answers, check_claims, notebook_prose
from tests.demos.run import NOTEBOOKS
from tests.demos.stories.replaying import SCRIPT


@pytest.fixture
def penguins() -> pd.DataFrame:
    return pd.read_csv(NOTEBOOKS / "data" / "penguins.csv")


def test_the_longest_flippers(penguins: pd.DataFrame) -> None:
    mean = penguins.groupby("species")["flipper_length_mm"].mean()
    assert mean.idxmax() == "Gentoo"
    check_claims(
        answers(SCRIPT)[0].content,
        f"{mean['Gentoo']:.1f} mm on average",
        f"{mean['Chinstrap']:.1f} mm for Chinstrap and {mean['Adelie']:.1f} mm for Adelie",
    )


def test_the_slip_moves_a_mean_by_less_than_a_millimetre(penguins: pd.DataFrame) -> None:
    assert f"The data are {len(penguins)} penguins" in notebook_prose("replaying")
    assert penguins.loc[0, "flipper_length_mm"] == 181
    before = penguins.groupby("species")["flipper_length_mm"].mean()["Adelie"]
    penguins.loc[0, "flipper_length_mm"] = 281
    after = penguins.groupby("species")["flipper_length_mm"].mean()["Adelie"]
    assert 0 < after - before < 1
    assert f"the recorded answer ({before:.1f} mm)" in notebook_prose("replaying")
