"""Penguins on three islands: code that fails, a budget that is used up, an agent that repeats itself."""

from tests.demos.script import call, python, script, story, turn

FAILS = story(
    """
    On which island are the penguins the heaviest?
    """,
    turn(
        "I group the penguins by island, and take the mean of each group.",
        python(
            """
            islands = penguins.groupby("island")
            heaviest = {name: mean(group["body_mass_g"]) for name, group in islands}
            """
        ),
    ),
    turn(
        "`mean` is no function here; pandas has its own.",
        python(
            """
            islands["body_mass_g"].mean().round(0).sort_values(ascending=False)
            """
        ),
        after="error",
    ),
    turn("On **Biscoe**: 4,716 g on average, against 3,713 g on Dream and 3,706 g on Torgersen."),
)


def species_on(island: str) -> str:
    return f'print(penguins.loc[penguins["island"] == "{island}", "species"].value_counts().to_dict())'


BUDGET = story(
    """
    Why is that? Look at each island by itself.
    """,
    turn("First Biscoe.", python(species_on("Biscoe"))),
    turn("Then Dream.", python(species_on("Dream"))),
    turn("And Torgersen.", python(species_on("Torgersen"))),
    turn("Only on Biscoe there are Gentoo, the heaviest of the species."),
)

GOES_ON = story(
    """
    Go on with the last island. What is the reason?
    """,
    turn("Torgersen is left.", python(species_on("Torgersen"))),
    turn(
        "The species differ. Gentoo, the heaviest of them, are on **Biscoe** only: 124 of its 168 penguins. On Dream "
        "there are 68 Chinstrap and 56 Adelie, on Torgersen 52 Adelie."
    ),
)

REPEATS = story(
    """
    Wait until `penguins` has data of 2010.
    """,
    *[turn("I look whether it is there.", call("run_python", code='print((penguins["year"] == 2010).sum())'))] * 5,
    turn("It is not there."),
)

SCRIPT = script("When things break", FAILS, BUDGET, GOES_ON, REPEATS)
