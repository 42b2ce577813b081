"""What `notebooks/cleaning.ipynb` says is true of the data."""

import pandas as pd
import pytest

from tests.demos.claims import answers, check_claims, notebook_prose, turns
from tests.demos.run import NOTEBOOKS
from tests.demos.stories.cleaning import SCRIPT


@pytest.fixture(scope="module")
def raw() -> pd.DataFrame:
    return pd.read_csv(NOTEBOOKS / "data" / "penguins-raw.csv")


def test_what_has_to_be_cleaned(raw: pd.DataFrame) -> None:
    missing = raw.isna().sum()
    spellings = sorted(raw["Species"].unique())
    assert {name.split()[1] for name in spellings} == {"Penguin", "penguin"}
    assert raw.duplicated().sum() == 0
    assert [column for column in raw if raw[column].nunique(dropna=False) == 1] == ["Region", "Stage"]
    assert raw["Sex"].dropna().str.isupper().all()
    said = answers(SCRIPT)[0].content
    check_claims(
        said,
        f"`raw` has {len(raw)} rows",
        "no row occurs twice",
        "`Body Mass (g)`",
        "spelled in two ways",
        f"`{spellings[0]}`",
        f"`{spellings[2]}`",
        f"missing for {missing['Sex']} penguins",
        f"missing for {missing['Body Mass (g)']}.",
        "`Region` and `Stage` have the same value in every row",
        f"`Comments` is empty in {missing['Comments']} rows",
    )
    assert f"empty in {missing['Comments']} of {len(raw)} rows" in notebook_prose("cleaning")


def test_what_the_denied_deletion_would_have_left(raw: pd.DataFrame) -> None:
    table = raw.dropna(subset=["Body Mass (g)", "Sex"])
    species = table["Species"].str.split().str[0]
    mass = table.groupby([species, "Sex"])["Body Mass (g)"].mean().unstack()
    heavier = (mass["MALE"] - mass["FEMALE"]).round().astype(int)
    left = raw.dropna()
    (remark,) = left["Comments"].unique()
    check_claims(
        answers(SCRIPT)[1].content,
        f"`penguins` has **{len(table)} of the {len(raw)} penguins**: {len(raw) - len(table)} have no",
        "`raw` is unchanged",
        f'**{len(left)} rows**, all of them with the remark "{remark}"',
        f"{heavier['Adelie']} g on average in Adelie, {heavier['Gentoo']} g in Gentoo and {heavier['Chinstrap']} g in",
    )
    assert raw["Comments"].isna().mean() > 0.8, "empty for most penguins, as the denial says"
    remarks = raw.loc[raw["Sex"].isna() | raw["Body Mass (g)"].isna(), "Comments"]
    assert len(remarks) == remarks.notna().sum() == 11
    assert "Each of the eleven rows" in notebook_prose("cleaning")


def test_the_duplicates_are_none(raw: pd.DataFrame) -> None:
    def repeated(*columns: str) -> int:
        return int(raw.duplicated(list(columns)).sum())

    assert repeated("studyName", "Individual ID") == 0
    alone, in_species = repeated("Individual ID"), repeated("Species", "Individual ID")
    check_claims(
        answers(SCRIPT)[2].content,
        "`Individual ID` is a key only together with the season",
        "`studyName`",
        f"Alone it repeats in {alone} rows, together with the species in {in_species}",
        "together with the season in none",
        f"cost you {alone} of {len(raw)} observations",
    )


def test_no_number_is_said_before_it_is_counted() -> None:
    for story in range(len(SCRIPT.stories)):
        *steps, _ = turns(SCRIPT, story)
        assert not any(character.isdigit() for turn in steps for character in turn.content)
