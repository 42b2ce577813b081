"""The Nile at Aswan: functions of the notebook's author as the agent's tools."""

from tests.demos.script import APPROVED, call, script, story, turn

SEARCH = story(
    """
    The Nile carries less water than it used to. When did that change?
    """,
    turn(
        "I compare the flow before and after some years, ten years apart.",
        call("compare", years=[1880, 1890, 1900, 1910, 1920, 1930, 1940, 1950, 1960]),
    ),
    turn(
        "The first year is too early for a comparison, so I begin later.",
        call("compare", years=[1890, 1900, 1910, 1920, 1930, 1940, 1950, 1960]),
        after="error",
    ),
    turn(
        "The difference is the largest at the turn of the century. I look at each year there.",
        call("compare", years=[1896, 1897, 1898, 1899, 1900, 1901, 1902]),
    ),
    turn(
        """
        **From 1899 on the Nile carried less water:** 850 in place of 1,098 (in 10⁸ m³ a year), which is 23 % less. Of
        the years that I compared, the difference is the clearest there (t = 8.4), and smaller a year earlier (8.0) and
        a year later (7.6). That is when it changed, not why.
        """
    ),
)

NOTE = story(
    """
    Put that into a note on the year.
    """,
    turn(
        "There is no note on that year yet.",
        call("annotate", year=1899, text="From here on 850 in place of 1098."),
    ),
    turn("The year 1899 has its note: From here on 850 in place of 1098."),
)

CHANGE = story(
    """
    Add to the note by how much that is less, in percent.
    """,
    turn(
        "The year has a note, which this replaces, so it is for you to decide.",
        call("annotate", year=1899, text="From here on 850 in place of 1098: 23 % less."),
    ),
    turn("The note on 1899 now says: From here on 850 in place of 1098: 23 % less."),
    decisions=[APPROVED],
)

SCRIPT = script("Your own functions as tools", SEARCH, NOTE, CHANGE)
