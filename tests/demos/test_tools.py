"""What `notebooks/tools.ipynb` says is true of the data."""

import pandas as pd
import pytest

from tests.demos.claims import answers, check_claims, notebook_prose, turns
from tests.demos.run import NOTEBOOKS
from tests.demos.stories.tools import SCRIPT

YEAR = 1899


@pytest.fixture(scope="module")
def nile() -> pd.Series:
    return pd.read_csv(NOTEBOOKS / "data" / "nile.csv", index_col="year")["volume"]


def welch(nile: pd.Series, year: int) -> float:
    before, after = nile.loc[: year - 1], nile.loc[year:]
    return (before.mean() - after.mean()) / (before.var() / len(before) + after.var() / len(after)) ** 0.5


def means(nile: pd.Series) -> tuple[float, float]:
    return nile.loc[: YEAR - 1].mean(), nile.loc[YEAR:].mean()


def test_when_the_flow_changed(nile: pd.Series) -> None:
    before, after = means(nile)
    asked = [year for turn in turns(SCRIPT, 0)[1:] for call in turn.calls for year in dict(call.arguments)["years"]]
    assert max(asked, key=lambda year: welch(nile, year)) == YEAR
    check_claims(
        answers(SCRIPT)[0].content,
        f"**From {YEAR} on the Nile carried less water:** {after:,.0f} in place of {before:,.0f} (in 10⁸ m³ a year)",
        f"which is {100 * (1 - after / before):.0f} % less",
        f"(t = {welch(nile, YEAR):.1f})",
        f"smaller a year earlier ({welch(nile, YEAR - 1):.1f}) and a year later ({welch(nile, YEAR + 1):.1f})",
    )
    assert f"each of {len(nile)} years" in notebook_prose("tools")
    assert min(asked) - 10 >= nile.index[0] > turns(SCRIPT, 0)[0].calls[0].arguments["years"][0] - 10


@pytest.mark.parametrize("story", [1, 2])
def test_what_is_noted(nile: pd.Series, story: int) -> None:
    before, after = means(nile)
    note = f"From here on {after:.0f} in place of {before:.0f}"
    note += "." if story == 1 else f": {100 * (1 - after / before):.0f} % less."
    asked, answer = turns(SCRIPT, story)
    assert asked.calls[0].arguments == {"year": YEAR, "text": note}
    check_claims(answer.content, note, str(YEAR))
