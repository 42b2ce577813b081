"""What the agent says in the demo notebooks is true of the data, and of the pictures that the model has seen."""

import io
import itertools

import pandas as pd
import pytest
from PIL import Image

from agent_kernel.models.recordings.format import load
from tests.demos.claims import answers, check_claims, notebook_prose, stories
from tests.demos.run import NOTEBOOKS, RECORDINGS


def data(name: str, index: str | None = None) -> pd.DataFrame:
    return pd.read_csv(NOTEBOOKS / "data" / f"{name}.csv", index_col=index)


@pytest.fixture
def penguins() -> pd.DataFrame:
    return data("penguins")


@pytest.fixture
def nile() -> pd.Series:
    return data("nile", "year")["volume"]


def test_no_number_is_said_before_it_is_counted() -> None:
    steps = [turn.answer.content for *steps, _ in stories("cleaning") for turn in steps]
    assert not any(character.isdigit() for character in "".join(steps))


# cleaning


@pytest.fixture
def raw() -> pd.DataFrame:
    return data("penguins-raw")


def test_what_has_to_be_cleaned(raw: pd.DataFrame) -> None:
    missing = raw.isna().sum()
    spellings = sorted(raw["Species"].unique())
    assert {name.split()[1] for name in spellings} == {"Penguin", "penguin"}
    assert raw.duplicated().sum() == 0
    assert [column for column in raw if raw[column].nunique(dropna=False) == 1] == ["Region", "Stage"]
    assert raw["Sex"].dropna().str.isupper().all()
    check_claims(
        answers("cleaning")[0],
        f"`raw` has {len(raw)} rows",
        "no row occurs twice",
        "`Body Mass (g)`",
        "spelled in two ways",
        f"`{spellings[0]}`",
        f"`{spellings[2]}`",
        f"missing for {missing['Sex']} penguins",
        f"missing for {missing['Body Mass (g)']}.",
        "`Region` and `Stage` have the same value in every row",
        f"`Comments` is empty in {missing['Comments']} rows",
    )
    assert f"empty in {missing['Comments']} of {len(raw)} rows" in notebook_prose("cleaning")


def test_what_the_denied_deletion_would_have_left(raw: pd.DataFrame) -> None:
    table = raw.dropna(subset=["Body Mass (g)", "Sex"])
    mass = table.groupby([table["Species"].str.split().str[0], "Sex"])["Body Mass (g)"].mean().unstack()
    heavier = (mass["MALE"] - mass["FEMALE"]).round().astype(int)
    left = raw.dropna()
    (remark,) = left["Comments"].unique()
    check_claims(
        answers("cleaning")[1],
        f"`penguins` has **{len(table)} of the {len(raw)} penguins**: {len(raw) - len(table)} have no",
        "`raw` is unchanged",
        f'**{len(left)} rows**, all of them with the remark "{remark}"',
        f"{heavier['Adelie']} g on average in Adelie, {heavier['Gentoo']} g in Gentoo and {heavier['Chinstrap']} g in",
    )
    assert raw["Comments"].isna().mean() > 0.8, "empty for most penguins, as the denial says"
    remarks = raw.loc[raw["Sex"].isna() | raw["Body Mass (g)"].isna(), "Comments"]
    assert len(remarks) == remarks.notna().sum() == 11
    assert "Each of the eleven rows" in notebook_prose("cleaning")


def test_the_duplicates_are_none(raw: pd.DataFrame) -> None:
    def repeated(*columns: str) -> int:
        return int(raw.duplicated(list(columns)).sum())

    assert repeated("studyName", "Individual ID") == 0
    alone, in_species = repeated("Individual ID"), repeated("Species", "Individual ID")
    check_claims(
        answers("cleaning")[2],
        "`Individual ID` is a key only together with the season",
        "`studyName`",
        f"Alone it repeats in {alone} rows, together with the species in {in_species}",
        "together with the season in none",
        f"cost you {alone} of {len(raw)} observations",
    )


# fixing


def test_why_the_cell_fails_and_how_much_heavier_males_are(penguins: pd.DataFrame) -> None:
    adelie, chinstrap, gentoo = sorted(penguins["species"].unique())
    mass = penguins.groupby(["species", "sex"])["body_mass_g"].mean().unstack()
    heavier = (mass["male"] - mass["female"]).round().astype(int)
    explained, checked = answers("fixing")
    check_claims(
        explained,
        "The keys of `tables` come from the column `species`",
        f"has `{adelie}`, `{chinstrap}` and `{gentoo}`",
        f"The cell asks for `{adelie.lower()}`",
        "`for name, table in tables.items():`",
    )
    check_claims(
        checked,
        f"{heavier['Adelie']} g (Adelie), {heavier['Chinstrap']} g (Chinstrap) and {heavier['Gentoo']} g (Gentoo)",
        f"{penguins['sex'].isna().sum()} penguins whose sex is not known",
    )


# pipeline


@pytest.fixture
def anomaly() -> pd.Series:
    monthly = data("elnino", "YEAR")
    long = (monthly - monthly.mean()).stack()
    months = [f"{year}-{list(monthly).index(month) + 1:02}" for year, month in long.index]
    return long.set_axis(pd.PeriodIndex(months, freq="M"))


def test_the_series_and_which_event_had_the_higher_peak(anomaly: pd.Series) -> None:
    months = f"`anomaly` has {len(anomaly)} months, {anomaly.index[0]} to {anomaly.index[-1]}."
    check_claims(answers("pipeline")[0], months)
    early, late = anomaly["1982":"1983"], anomaly["1997":"1998"]
    assert early.max() > late.max()
    assert (early > 2).sum() < (late > 2).sum()
    assert "1982/83 had the higher peak; that of 1997/98 had more months above 2 °C" in notebook_prose("pipeline")
    assert set(anomaly.nlargest(8).index.year) == {1983, 1997}, "the two great ones"


@pytest.mark.parametrize(
    ("story", "name", "first", "last"), [(1, "1982/83", "1982", "1983"), (2, "1997/98", "1997", "1998")]
)
def test_the_events(anomaly: pd.Series, story: int, name: str, first: str, last: str) -> None:
    event = anomaly[first:last]
    peak, month, warm = round(float(event.max()), 1), str(event.idxmax()), int((event > 2).sum())
    _, reporting, last_turn = stories("pipeline")[story]
    (call,) = reporting.answer.calls
    assert call.arguments == {"event": name, "peak": peak, "month": month, "warm_months": warm}
    check_claims(
        last_turn.answer.content,
        f"In {month} the sea was {peak} °C warmer than usual for the month",
        f"in {warm} months of the two years it was more than 2 °C warmer",
    )


# plots


def test_cycles_rise_faster_than_they_fall_above_all_high_ones() -> None:
    """The cycles are found otherwise than in the notebook: a low is deeper than the three years on either side."""
    sunspots = data("sunspots", "YEAR")["SUNACTIVITY"]
    sides = [sunspots.shift(years) for years in (-3, -2, -1)], [sunspots.shift(years) for years in (1, 2, 3)]
    after, before = (pd.concat(side, axis=1).min(axis=1, skipna=False) for side in sides)
    low = sunspots.index[(sunspots < before) & (sunspots <= after)]
    peaks = [(first, sunspots.loc[first:last].idxmax(), last) for first, last in itertools.pairwise(low)]
    columns = ["years", "rise", "fall", "height"]
    rows = [(last - first, peak - first, last - peak, sunspots[peak]) for first, peak, last in peaks]
    cycles = pd.DataFrame(rows, columns=columns)
    check_claims(
        answers("plots")[0],
        f"there are {len(cycles)} whole cycles, of {cycles['years'].mean():.1f} years on average",
        f"{cycles['rise'].mean():.1f} years up and {cycles['fall'].mean():.1f} years down",
        f"In {(cycles['rise'] < cycles['fall']).sum()} of them the rise is the shorter part",
        f"in {(cycles['rise'] > cycles['fall']).sum()} the longer",
    )
    highest, slow = cycles.loc[cycles["height"].idxmax()], cycles[cycles["rise"] >= 6]
    check_claims(
        answers("plots")[1],
        f"(r = {cycles['rise'].corr(cycles['height']):.2f})",
        f"The highest of all, {sunspots.max():.0f} in {sunspots.idxmax()}, came {highest['rise']:.0f} years after",
        f"no cycle that took 6 years or more came above {slow['height'].max():.0f}",
    )
    assert f"from {sunspots.index[0]} to {sunspots.index[-1]}" in notebook_prose("plots")
    high = cycles[cycles["height"] > cycles["height"].median()]
    assert (high["rise"] < high["fall"]).mean() > (cycles["rise"] < cycles["fall"]).mean()


def test_the_recording_has_the_pictures_that_the_model_was_shown() -> None:
    """The first is nearly as high as wide, the second low and wide, and a curve is on each."""
    turns = [placed.turn for placed in load(RECORDINGS / "plots.jsonl").turns]
    shown = [image for turn in turns for result in turn.asked.results for image in result.images]
    assert len(shown) == sum("plt.show" in str(turn.answer.calls) for turn in turns) == 3
    first, second, _ = shown
    assert 1 < first.width / first.height < 1.5
    assert second.width / second.height > 5
    for image in shown:
        picture = Image.open(io.BytesIO((RECORDINGS / "plots.images" / image.file_name).read_bytes()))
        assert picture.size == (image.width, image.height)
        assert len(picture.convert("RGB").getcolors(1 << 24) or ()) > 10


# policies


def test_which_years_of_the_nile_are_unusual_and_which_are_left_out(nile: pd.Series) -> None:
    def unusual(deviations: float) -> list[int]:
        return list(nile[(nile - nile.mean()).abs() > deviations * nile.std()].index)

    high, third, low = unusual(2)
    assert ([high, low], low) == (unusual(2.5), nile.idxmin())
    looks, leaves, asks, denied = stories("policies")
    assert [call.arguments for turn in looks for call in turn.answer.calls] == [{"deviations": 2}]
    assert [call.arguments["year"] for call in leaves[1].answer.calls] == [high, low]  # type: ignore[index]
    (question,) = asks[0].answer.calls
    assert question.arguments == {"question": f"{low} has {nile[low]}, half of the mean. Is that a slip of the pen?"}
    assert round(nile[low] / nile.mean(), 1) == 0.5
    assert denied[0].answer.calls[0].arguments["year"] == third  # type: ignore[index]
    found, left_out, answered, stays = answers("policies")
    check_claims(
        found,
        f"Three: **{high}** with {nile[high]:,} and **{third}** with {nile[third]:,}",
        f"**{low}** with {nile[low]} the least of all {len(nile)} years",
    )
    check_claims(
        left_out,
        f"**{high} is left out**, and the mean is {nile.drop(high).mean():.0f} now in place of {nile.mean():.0f}",
        f"**{low} stays:**",
    )
    check_claims(answered, f"{low} stays", f"{high} is left out")
    check_claims(stays, f"{third} stays")
    assert f"each of {len(nile)} years" in notebook_prose("policies")


# replaying


def test_the_longest_flippers_and_the_slip_that_moves_a_mean_by_less_than_a_millimetre(penguins: pd.DataFrame) -> None:
    mean = penguins.groupby("species")["flipper_length_mm"].mean()
    assert mean.idxmax() == "Gentoo"
    check_claims(
        answers("replaying")[0],
        f"{mean['Gentoo']:.1f} mm on average",
        f"{mean['Chinstrap']:.1f} mm for Chinstrap and {mean['Adelie']:.1f} mm for Adelie",
    )
    prose = notebook_prose("replaying")
    assert f"The data are {len(penguins)} penguins" in prose
    assert f"the recorded answer ({mean['Adelie']:.1f} mm)" in prose
    assert penguins.loc[0, "flipper_length_mm"] == 181
    penguins.loc[0, "flipper_length_mm"] = 281
    assert 0 < penguins.groupby("species")["flipper_length_mm"].mean()["Adelie"] - mean["Adelie"] < 1


# tools


def test_when_the_flow_of_the_nile_changed_and_what_is_noted(nile: pd.Series) -> None:
    def welch(year: int) -> float:
        before, after = nile.loc[: year - 1], nile.loc[year:]
        return (before.mean() - after.mean()) / (before.var() / len(before) + after.var() / len(after)) ** 0.5

    first, *others = [turn.answer.calls for turn in stories("tools")[0]]
    asked = [year for calls in others for call in calls for year in dict(call.arguments)["years"]]
    found = max(asked, key=welch)
    before, after = nile.loc[: found - 1].mean(), nile.loc[found:].mean()
    less = f"{100 * (1 - after / before):.0f} % less"
    check_claims(
        answers("tools")[0],
        f"**From {found} on the Nile carried less water:** {after:,.0f} in place of {before:,.0f} (in 10⁸ m³ a year)",
        f"which is {less}",
        f"(t = {welch(found):.1f})",
        f"smaller a year earlier ({welch(found - 1):.1f}) and a year later ({welch(found + 1):.1f})",
    )
    assert f"each of {len(nile)} years" in notebook_prose("tools")
    assert min(asked) - 10 >= nile.index[0] > dict(first[0].arguments)["years"][0] - 10
    for (noting, last), end in zip(stories("tools")[1:], (".", f": {less}."), strict=True):
        note = f"From here on {after:.0f} in place of {before:.0f}{end}"
        assert noting.answer.calls[0].arguments == {"year": found, "text": note}
        check_claims(last.answer.content, note, str(found))


# when-things-break


def test_the_heaviest_island_and_the_species_there(penguins: pd.DataFrame) -> None:
    mass = penguins.groupby("island")["body_mass_g"].mean()
    count = penguins.groupby("island")["species"].value_counts()
    assert penguins.groupby("species")["body_mass_g"].mean().idxmax() == "Gentoo"
    assert count["Biscoe", "Gentoo"] == (penguins["species"] == "Gentoo").sum(), "on this island only"
    dream, torgersen = count["Dream"], count["Torgersen"]
    assert (set(dream.index), set(torgersen.index)) == ({"Chinstrap", "Adelie"}, {"Adelie"})
    heaviest, _, reason, _ = answers("when-things-break")
    check_claims(
        heaviest,
        f"On **{mass.idxmax()}**: {mass['Biscoe']:,.0f} g on average",
        f"{mass['Dream']:,.0f} g on Dream and {mass['Torgersen']:,.0f} g on Torgersen",
    )
    check_claims(
        reason,
        f"{count['Biscoe', 'Gentoo']} of its {count['Biscoe'].sum()} penguins",
        f"{dream['Chinstrap']} Chinstrap and {dream['Adelie']} Adelie, on Torgersen {torgersen['Adelie']} Adelie",
    )


def test_the_data_end_before_the_year_that_is_waited_for(penguins: pd.DataFrame) -> None:
    assert penguins["year"].max() == 2009
    assert "The data end in 2009" in notebook_prose("when-things-break")
    assert "2010" in stories("when-things-break")[3][0].prompt
