"""The flippers of three species: a recording that is played, and stops when the data or the prompt have changed."""

from tests.demos.script import python, script, story, turn

FLIPPERS = story(
    """
    Which species has the longest flippers?
    """,
    turn(
        "I compare the means.",
        python('penguins.groupby("species")["flipper_length_mm"].mean().round(1)'),
    ),
    turn("**Gentoo**: 217.2 mm on average, against 195.8 mm for Chinstrap and 190.0 mm for Adelie."),
)

SCRIPT = script("Replaying and testing", FLIPPERS)
