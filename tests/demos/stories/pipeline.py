"""El Niño in sixty years of sea temperatures: an agent as a step between ordinary cells."""

from tests.demos.script import Story, call, python, script, story, turn

ANOMALY = story(
    "Make a Series `anomaly` of `monthly`: how much warmer each month is than the mean of that month, in order of "
    "time, with a monthly PeriodIndex.",
    turn(
        "I subtract each month's mean, and put the months in order.",
        python(
            """
            deviation = (monthly - monthly.mean()).stack()
            months = [pd.to_datetime(f"{month} {year}", format="%b %Y") for year, month in deviation.index]
            anomaly = deviation.set_axis(pd.PeriodIndex(months, freq="M")).rename("anomaly")
            print(f"{len(anomaly)} months, {anomaly.index[0]} to {anomaly.index[-1]}")
            """
        ),
    ),
    turn("`anomaly` has 732 months, 1950-01 to 2010-12."),
)


def event(name: str, first: int, last: int, peak: float, month: str, warm: int) -> Story:
    return story(
        f"Report the El Niño of {name}.",
        turn(
            "I look at both years.",
            python(
                f"""
                event = anomaly["{first}":"{last}"]
                print(f"{{event.max():.1f}} in {{event.idxmax()}}, {{(event > 2).sum()}} months above 2")
                """
            ),
        ),
        turn(
            "Now I report what I have found.",
            call("report", event=name, peak=peak, month=month, warm_months=warm),
        ),
        turn(
            f"In {month} the sea was {peak} °C warmer than usual for the month; in {warm} months of the two years it "
            "was more than 2 °C warmer."
        ),
    )


EVENTS = (event("1982/83", 1982, 1983, 4.6, "1983-06", 11), event("1997/98", 1997, 1998, 4.4, "1997-12", 14))

SCRIPT = script("An agent inside a pipeline", ANOMALY, *EVENTS)
