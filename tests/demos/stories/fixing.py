"""Penguins by species: a cell that fails, why it does, and a check of what the mended cell has found."""

from tests.demos.script import APPROVED, python, script, story, turn

EXPLAIN = story(
    """
    Explain the error of @cell:fails
    Change nothing.
    """,
    turn(
        "The loop asks `tables` for names. I look at those that it has.",
        python("print(list(tables))"),
    ),
    turn(
        """
        **A name is written differently.** The keys of `tables` come from the column `species`, which has `Adelie`,
        `Chinstrap` and `Gentoo`. The cell asks for `adelie`, and a dictionary has no key that is only nearly the same.

        `for name, table in tables.items():` takes the names as they are in the data, so none can be misspelled.
        """
    ),
    decisions=[APPROVED],
)

CHECK = story(
    """
    Check @heavier on the whole table, without `tables`.
    """,
    turn(
        "I take the means by species and sex at once, and subtract.",
        python(
            """
            mass = penguins.groupby(["species", "sex"])["body_mass_g"].mean().unstack()
            (mass["male"] - mass["female"]).round().astype(int)
            """
        ),
    ),
    turn(
        """
        It is right: males are heavier by 675 g (Adelie), 412 g (Chinstrap) and 805 g (Gentoo) on average. The 11
        penguins whose sex is not known count in neither mean.
        """
    ),
    decisions=[APPROVED],
)

SCRIPT = script("A cell that fails", EXPLAIN, CHECK)
