"""What `notebooks/pipeline.ipynb` says is true of the data."""

import pandas as pd
import pytest

from tests.demos.claims import answers, check_claims, notebook_prose, turns
from tests.demos.run import NOTEBOOKS
from tests.demos.stories.pipeline import SCRIPT


@pytest.fixture(scope="module")
def anomaly() -> pd.Series:
    monthly = pd.read_csv(NOTEBOOKS / "data" / "elnino.csv", index_col="YEAR")
    long = (monthly - monthly.mean()).stack()
    months = [f"{year}-{list(monthly).index(month) + 1:02}" for year, month in long.index]
    return long.set_axis(pd.PeriodIndex(months, freq="M"))


def test_the_series(anomaly: pd.Series) -> None:
    check_claims(
        answers(SCRIPT)[0].content,
        f"`anomaly` has {len(anomaly)} months, {anomaly.index[0]} to {anomaly.index[-1]}.",
    )


@pytest.mark.parametrize(
    ("story", "name", "first", "last"), [(1, "1982/83", "1982", "1983"), (2, "1997/98", "1997", "1998")]
)
def test_the_events(anomaly: pd.Series, story: int, name: str, first: str, last: str) -> None:
    event = anomaly[first:last]
    peak, month, warm = round(float(event.max()), 1), str(event.idxmax()), int((event > 2).sum())
    _, reporting, answer = turns(SCRIPT, story)
    (call,) = reporting.calls
    assert call.arguments == {"event": name, "peak": peak, "month": month, "warm_months": warm}
    check_claims(
        answer.content,
        f"In {month} the sea was {peak} °C warmer than usual for the month",
        f"in {warm} months of the two years it was more than 2 °C warmer",
    )


def test_which_had_the_higher_peak_and_which_more_warm_months(anomaly: pd.Series) -> None:
    early, late = anomaly["1982":"1983"], anomaly["1997":"1998"]
    assert early.max() > late.max()
    assert (early > 2).sum() < (late > 2).sum()
    assert "1982/83 had the higher peak; that of 1997/98 had more months above 2 °C" in notebook_prose("pipeline")
    assert set(anomaly.nlargest(8).index.year) == {1983, 1997}, "the two great ones"
