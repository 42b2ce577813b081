"""A messy table: field notes on penguins, and a deletion that a person refuses."""

from tests.demos.script import APPROVED, call, denied, python, script, story, turn

LOOK = story(
    """
    Look at `raw`. What has to be cleaned before I can compare body mass by species and sex?
    """,
    turn(
        "I look at the table, then count what is missing and what the columns of words hold.",
        call("inspect_variables", names=["raw"]),
        python(
            """
            missing = raw.isna().sum()
            print(missing[missing > 0].to_string())
            for column in ["Species", "Sex", "Stage", "Region"]:
                print(f"{column}: {raw[column].value_counts().to_dict()}")
            print("rows that occur twice:", raw.duplicated().sum())
            """
        ),
    ),
    turn(
        """
        `raw` has 344 rows, one a penguin, and no row occurs twice. For your comparison:

        - **Names.** Columns such as `Body Mass (g)` are hard to write; short ones without units in brackets are easier.
        - **Species** are long, and spelled in two ways: `Adelie Penguin (Pygoscelis adeliae)`, but
          `Gentoo penguin (Pygoscelis papua)`.
        - **Sex** is in capitals, and missing for 11 penguins.
        - **Body mass** is missing for 2.
        - `Region` and `Stage` have the same value in every row, so they tell you nothing.
        - `Comments` is empty in 290 rows.
        """
    ),
    decisions=[APPROVED],
)

CLEAN = story(
    """
    Clean it into a table `penguins`, without the incomplete rows.
    """,
    turn(
        "I shorten the names, and drop every row in which something is missing.",
        python(
            """
            raw = raw.dropna()
            penguins = raw.rename(columns={"Body Mass (g)": "mass", "Sex": "sex", "Island": "island"})
            penguins["species"] = penguins["Species"].str.split().str[0]
            penguins = penguins[["species", "island", "sex", "mass"]]
            """
        ),
    ),
    turn(
        """
        You are right, and I should have looked first. A comment is written only where something was unusual, so
        dropping rows without one keeps just the unusual penguins. I count that, and then build `penguins` from the
        columns that the comparison needs. `raw` stays as it is.
        """,
        python(
            """
            everything = raw.dropna()
            print(f"Complete in every column: {len(everything)} of {len(raw)} rows")
            print(everything["Comments"].value_counts().to_string())
            """
        ),
        python(
            """
            penguins = raw.rename(columns={"Body Mass (g)": "mass", "Sex": "sex", "Island": "island"})
            penguins["species"] = penguins["Species"].str.split().str[0]
            penguins["sex"] = penguins["sex"].str.lower()
            penguins = penguins.dropna(subset=["mass", "sex"])[["species", "island", "sex", "mass"]]
            penguins = penguins.reset_index(drop=True)
            penguins.groupby(["species", "sex"])["mass"].agg(["count", "mean"]).round(0).astype(int)
            """
        ),
        after="denied",
    ),
    turn(
        """
        `penguins` has **333 of the 344 penguins**: 11 have no sex or no body mass. `raw` is unchanged.

        My first attempt would have left **34 rows**, all of them with the remark "Nest never observed with full
        clutch.": a table of the exceptions.

        In each species males are heavier than females, by 675 g on average in Adelie, 805 g in Gentoo and 412 g in
        Chinstrap.
        """
    ),
    decisions=[
        denied(
            "Comments is empty for most penguins, so dropna() throws away the good rows. Only sex and mass have to be "
            "there. And leave raw as it is."
        ),
        APPROVED,
        APPROVED,
    ],
)

KEYS = story(
    """
    `Individual ID` occurs more than once. Are there duplicates to remove?
    """,
    turn(
        "I count in which columns the repeated values agree, without removing anything.",
        python(
            """
            for key in (["Individual ID"], ["Species", "Individual ID"], ["studyName", "Individual ID"]):
                print(f"{' + '.join(key)}: {raw.duplicated(key).sum()} repeated")
            """
        ),
    ),
    turn(
        """
        **No, there is nothing to remove.** `Individual ID` is a key only together with the season, which is in
        `studyName`. Alone it repeats in 154 rows, together with the species in 60, together with the season in none.
        Removing "duplicates" by that column alone would have cost you 154 of 344 observations.
        """
    ),
    decisions=[APPROVED],
)

SCRIPT = script("Cleaning a messy table", LOOK, CLEAN, KEYS)
