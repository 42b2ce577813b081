"""What `notebooks/fixing.ipynb` says is true of the data."""

import pandas as pd
import pytest

from tests.demos.claims import answers, check_claims
from tests.demos.run import NOTEBOOKS
from tests.demos.stories.fixing import SCRIPT


@pytest.fixture(scope="module")
def penguins() -> pd.DataFrame:
    return pd.read_csv(NOTEBOOKS / "data" / "penguins.csv")


def test_why_the_cell_fails(penguins: pd.DataFrame) -> None:
    adelie, chinstrap, gentoo = sorted(penguins["species"].unique())
    check_claims(
        answers(SCRIPT)[0].content,
        "The keys of `tables` come from the column `species`",
        f"has `{adelie}`, `{chinstrap}` and `{gentoo}`",
        f"The cell asks for `{adelie.lower()}`",
        "`for name, table in tables.items():`",
    )


def test_how_much_heavier_males_are(penguins: pd.DataFrame) -> None:
    mass = penguins.groupby(["species", "sex"])["body_mass_g"].mean().unstack()
    heavier = (mass["male"] - mass["female"]).round().astype(int)
    check_claims(
        answers(SCRIPT)[1].content,
        f"{heavier['Adelie']} g (Adelie), {heavier['Chinstrap']} g (Chinstrap) and {heavier['Gentoo']} g (Gentoo)",
        f"{penguins['sex'].isna().sum()} penguins whose sex is not known",
    )
