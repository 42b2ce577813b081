"""What `notebooks/plots.ipynb` says is true of the data, and of the pictures that the model has seen."""

import io
import itertools

import pandas as pd
import pytest
from PIL import Image

from agent_kernel.models.recordings.format import RecordedCall, load
from tests.demos.claims import answers, check_claims, notebook_prose, turns
from tests.demos.run import NOTEBOOKS, RECORDINGS
from tests.demos.stories.plots import SCRIPT


@pytest.fixture(scope="module")
def sunspots() -> pd.Series:
    return pd.read_csv(NOTEBOOKS / "data" / "sunspots.csv", index_col="YEAR")["SUNACTIVITY"]


@pytest.fixture(scope="module")
def cycles(sunspots: pd.Series) -> pd.DataFrame:
    """The cycles, found otherwise than in the notebook: a low is deeper than the three years before and after it."""
    sides = [sunspots.shift(years) for years in (-3, -2, -1)], [sunspots.shift(years) for years in (1, 2, 3)]
    after, before = (pd.concat(side, axis=1).min(axis=1, skipna=False) for side in sides)
    low = sunspots.index[(sunspots < before) & (sunspots <= after)]
    rows = []
    for first, last in itertools.pairwise(low):
        peak = sunspots.loc[first:last].idxmax()
        rows.append({"years": last - first, "rise": peak - first, "fall": last - peak, "height": sunspots[peak]})
    return pd.DataFrame(rows)


def test_cycles_rise_faster_than_they_fall(sunspots: pd.Series, cycles: pd.DataFrame) -> None:
    check_claims(
        answers(SCRIPT)[0].content,
        f"there are {len(cycles)} whole cycles, of {cycles['years'].mean():.1f} years on average",
        f"{cycles['rise'].mean():.1f} years up and {cycles['fall'].mean():.1f} years down",
        f"In {(cycles['rise'] < cycles['fall']).sum()} of them the rise is the shorter part",
        f"in {(cycles['rise'] > cycles['fall']).sum()} the longer",
    )
    assert f"from {sunspots.index[0]} to {sunspots.index[-1]}" in notebook_prose("plots")


def test_high_cycles_rise_sooner(sunspots: pd.Series, cycles: pd.DataFrame) -> None:
    highest, slow = cycles.loc[cycles["height"].idxmax()], cycles[cycles["rise"] >= 6]
    check_claims(
        answers(SCRIPT)[1].content,
        f"(r = {cycles['rise'].corr(cycles['height']):.2f})",
        f"The highest of all, {sunspots.max():.0f} in {sunspots.idxmax()}, came {highest['rise']:.0f} years after",
        f"no cycle that took 6 years or more came above {slow['height'].max():.0f}",
    )


def test_high_cycles_rise_more_steeply_than_they_fall_above_all(cycles: pd.DataFrame) -> None:
    high = cycles[cycles["height"] > cycles["height"].median()]
    assert (high["rise"] < high["fall"]).mean() > (cycles["rise"] < cycles["fall"]).mean()


def test_the_recording_has_the_pictures_that_the_model_was_shown() -> None:
    """The first is nearly as high as wide, the second low and wide, and a curve is on each."""
    recording = load(RECORDINGS / "plots.jsonl")
    shown = [image for placed in recording.turns for result in placed.turn.asked.results for image in result.images]
    assert len(shown) == sum("plt.show" in str(call.arguments) for one in (0, 1) for call in _calls(one)) == 3
    first, second, _ = shown
    assert 1 < first.width / first.height < 1.5
    assert second.width / second.height > 5
    for image in shown:
        data = (RECORDINGS / "plots.images" / image.file_name).read_bytes()
        with Image.open(io.BytesIO(data)) as picture:
            assert picture.size == (image.width, image.height)
            assert len(picture.convert("RGB").getcolors(1 << 24) or ()) > 10


def _calls(story: int) -> list[RecordedCall]:
    return [call for turn in turns(SCRIPT, story) for call in turn.calls]
