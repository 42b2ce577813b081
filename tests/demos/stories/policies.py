"""Two unusual years of the Nile, and who decides whether they are left out."""

from tests.demos.script import APPROVED, call, script, story, turn

WHICH = story(
    """
    Which years of `nile` are unusual?
    """,
    turn("I ask for the years that are more than two standard deviations away.", call("unusual", deviations=2)),
    turn(
        """
        Three: **1879** with 1,370 and **1895** with 1,260 carried much water, **1913** with 456 the least of all 100
        years.
        """
    ),
    decisions=[APPROVED],
)

EXCLUDE = story(
    """
    Leave the most unusual years out.
    """,
    turn("I take those beyond two and a half standard deviations.", call("unusual", deviations=2.5)),
    turn(
        "There are two. I leave them out, each with its reason.",
        call("exclude", year=1879, reason="high outlier"),
        call("exclude", year=1913, reason="low outlier"),
    ),
    turn(
        """
        **1879 is left out**, and the mean is 915 now in place of 919. **1913 stays:** a rule of yours denies that call,
        so I did not try another way.
        """,
        after="denied",
    ),
    decisions=[APPROVED],
)

ASKS = story(
    """
    Ask me about the lowest year before you leave anything out.
    """,
    turn(
        "I ask first.",
        call("ask_user", question="1913 has 456, half of the mean. Is that a slip of the pen?"),
    ),
    turn(
        "So 1913 stays. I leave out the other one.",
        call("exclude", year=1879, reason="high outlier"),
    ),
    turn(
        """
        1913 stays, because you say that the number is right. 1879 is left out with the reason that you wrote in place
        of mine: a flood, left out of the fit for low water only.
        """,
        after="edited",
    ),
)

ANOTHER = story(
    """
    Leave 1895 out as well.
    """,
    turn("It is the third of the unusual years.", call("exclude", year=1895, reason="high outlier")),
    turn("1895 stays: nobody has approved this call.", after="denied"),
)

SCRIPT = script("Approvals and policies", WHICH, EXCLUDE, ASKS, ANOTHER)
