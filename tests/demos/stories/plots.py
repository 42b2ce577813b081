"""Sunspots since 1700: a model that looks at its own plot, and draws a better one."""

from tests.demos.script import python, script, story, turn

SHAPE = story(
    """
    Plot `sunspots` and look at it. What is the shape of a cycle: does it rise as it falls?
    """,
    turn(
        "I plot all years.",
        python(
            """
            import matplotlib.pyplot as plt

            plt.plot(sunspots)
            plt.show()
            """
        ),
    ),
    turn(
        """
        I see the cycles, and that some are much higher than others. But three centuries in a picture that is nearly as
        high as wide make each of them a needle: whether it rises as it falls can't be seen. I draw it low and wide.
        """,
        python(
            """
            plt.figure(figsize=(12, 1.3))
            plt.plot(sunspots, lw=1)
            plt.margins(x=0.01)
            plt.show()
            """
        ),
    ),
    turn(
        """
        Now it can be seen: most cycles go up steeply and come down gently, the high ones above all. A look is not a
        number, so I measure it: from each low to the peak, and from the peak to the next low.
        """,
        python(
            """
            low = [year for year in sunspots.index[3:-3] if sunspots.loc[year - 3 : year + 3].idxmin() == year]
            peak = [sunspots.loc[a:b].idxmax() for a, b in zip(low, low[1:])]
            cycles = pd.DataFrame({"low": low[:-1], "peak": peak, "next": low[1:]})
            cycles["rise"] = cycles["peak"] - cycles["low"]
            cycles["fall"] = cycles["next"] - cycles["peak"]
            cycles["height"] = list(sunspots[peak])

            print(f"{len(cycles)} cycles, {(cycles['next'] - cycles['low']).mean():.1f} years on average")
            print(f"{cycles['rise'].mean():.1f} years up, {cycles['fall'].mean():.1f} years down")
            print(f"up is shorter in {(cycles['rise'] < cycles['fall']).sum()}, "
                  f"longer in {(cycles['rise'] > cycles['fall']).sum()}")
            """
        ),
    ),
    turn(
        """
        **No: it rises faster than it falls.** Between the first low and the last there are 26 whole cycles, of 11.0
        years on average: 4.3 years up and 6.6 years down. In 20 of them the rise is the shorter part, in 3 the longer.
        """
    ),
)

HEIGHT = story(
    """
    Are high cycles steeper? Plot it, and look.
    """,
    turn(
        "I plot the height of each cycle against the years that it took to rise.",
        python(
            """
            cycles.plot.scatter("rise", "height", figsize=(5, 3))
            plt.show()
            print(f"r = {cycles['rise'].corr(cycles['height']):.2f}")
            """
        ),
    ),
    turn(
        """
        **Yes.** The points go down from the upper left to the lower right (r = -0.78): the higher the peak, the sooner
        it comes. The highest of all, 190 in 1957, came 3 years after the low; no cycle that took 6 years or more came
        above 86.
        """
    ),
)

SCRIPT = script("Plots that the model looks at", SHAPE, HEIGHT)
