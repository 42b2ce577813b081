"""What `notebooks/policies.ipynb` says is true of the data."""

import pandas as pd
import pytest

from tests.demos.claims import answers, check_claims, notebook_prose, turns
from tests.demos.run import NOTEBOOKS
from tests.demos.stories.policies import SCRIPT

FLOOD, DROUGHT = 1879, 1913


@pytest.fixture(scope="module")
def nile() -> pd.Series:
    return pd.read_csv(NOTEBOOKS / "data" / "nile.csv", index_col="year")["volume"]


def unusual(nile: pd.Series, deviations: float) -> list[int]:
    return list(nile[(nile - nile.mean()).abs() > deviations * nile.std()].index)


def test_which_years_are_unusual(nile: pd.Series) -> None:
    asked = [call.arguments for turn in turns(SCRIPT, 0) for call in turn.calls]
    assert asked == [{"deviations": 2}]
    high, third, low = unusual(nile, 2)
    assert (high, low) == (FLOOD, DROUGHT)
    assert nile.idxmin() == low
    check_claims(
        answers(SCRIPT)[0].content,
        f"Three: **{high}** with {nile[high]:,} and **{third}** with {nile[third]:,}",
        f"**{low}** with {nile[low]} the least of all {len(nile)} years",
    )
    assert f"each of {len(nile)} years" in notebook_prose("policies")


def test_what_is_left_out_and_what_the_rule_keeps(nile: pd.Series) -> None:
    assert unusual(nile, 2.5) == [FLOOD, DROUGHT]
    assert [call.arguments["year"] for call in turns(SCRIPT, 1)[1].calls] == [FLOOD, DROUGHT]
    check_claims(
        answers(SCRIPT)[1].content,
        f"**{FLOOD} is left out**, and the mean is {nile.drop(FLOOD).mean():.0f} now in place of {nile.mean():.0f}",
        f"**{DROUGHT} stays:**",
    )


def test_what_the_agent_asks_about(nile: pd.Series) -> None:
    (question,) = turns(SCRIPT, 2)[0].calls
    assert question.arguments == {
        "question": f"{DROUGHT} has {nile[DROUGHT]}, half of the mean. Is that a slip of the pen?"
    }
    assert round(nile[DROUGHT] / nile.mean(), 1) == 0.5
    check_claims(answers(SCRIPT)[2].content, f"{DROUGHT} stays", f"{FLOOD} is left out")


def test_the_call_that_nobody_approved(nile: pd.Series) -> None:
    (third,) = set(unusual(nile, 2)) - set(unusual(nile, 2.5))
    (call,) = turns(SCRIPT, 3)[0].calls
    assert call.arguments["year"] == third
    check_claims(answers(SCRIPT)[3].content, f"{third} stays")
