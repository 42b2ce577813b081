"""What the agent says in the demo notebooks was computed by its calls, whose results `make notebooks` compares with the
data's, or is true of the data."""

import itertools
import re
from collections.abc import Callable, Iterator

import pandas as pd
import pytest

from tests.demos.run import NAMES, NOTEBOOKS, stories

NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")


def data(name: str, index: str | None = None) -> pd.DataFrame:
    return pd.read_csv(NOTEBOOKS / "data" / f"{name}.csv", index_col=index)


def heavier(table: pd.DataFrame, species: str, sex: str, mass: str) -> Iterator[str]:
    """By how much the males of each species are heavier."""
    means = table.groupby([table[species].str.split().str[0], table[sex].str.lower()])[mass].mean().unstack()
    yield from (means["male"] - means["female"]).round().astype(int).astype(str)


def cleaning() -> Iterator[str]:
    raw = data("penguins-raw")
    yield str(len(raw.dropna(subset=["Body Mass (g)", "Sex"])))
    yield from heavier(raw, "Species", "Sex", "Body Mass (g)")


def fixing() -> Iterator[str]:
    yield str(data("penguins")["sex"].isna().sum())


def plots() -> Iterator[str]:
    """Read from the picture: the highest of the peaks, its year, and the highest after a slow rise."""
    sunspots = data("sunspots", "YEAR")["SUNACTIVITY"]
    low = [year for year in sunspots.index[3:-3] if sunspots[year] == sunspots.loc[year - 3 : year + 3].min()]
    peaks = {sunspots.loc[first:last].idxmax(): first for first, last in itertools.pairwise(low)}
    yield f"{sunspots.max():.0f}"
    yield str(sunspots.idxmax())
    yield f"{max(sunspots[peak] for peak, first in peaks.items() if peak - first >= 6):.0f}"


def policies() -> Iterator[str]:
    yield f"{data('nile')['volume'].mean():.0f}"


def tools() -> Iterator[str]:
    nile = data("nile", "year")["volume"]
    yield "10"  # of the unit, 10⁸ m³
    yield f"{100 * (1 - nile.loc[1899:].mean() / nile.loc[:1898].mean()):.0f}"


def when_things_break() -> Iterator[str]:
    count = data("penguins").groupby("island")["species"].value_counts()
    yield str(count["Biscoe"].sum())
    yield from map(str, count["Dream"])


BESIDE: dict[str, Callable[[], Iterator[str]]] = {
    "cleaning": cleaning,
    "fixing": fixing,
    "plots": plots,
    "policies": policies,
    "tools": tools,
    "when-things-break": when_things_break,
}
"""What answers say that stands in no result of the recording."""


def numbers(text: str) -> set[str]:
    return {found.replace(",", "") for found in NUMBER.findall(text)}


def rounds_to(number: str, sources: set[str]) -> bool:
    digits = len(number.partition(".")[2])
    return any(round(float(source), digits) == float(number) for source in sources)


@pytest.mark.parametrize("name", NAMES)
def test_each_number_of_an_answer_was_computed_or_asked_for_before_or_is_true_of_the_data(name: str) -> None:
    sources: set[str] = set()
    left: set[str] = set()
    for turn in (turn for story in stories(name) for turn in story):
        sources |= numbers(" ".join([turn.prompt, *turn.asked.variables, *(one.text for one in turn.asked.results)]))
        left |= {number for number in numbers(turn.answer.content) if not rounds_to(number, sources)}
        sources |= numbers(str(turn.answer.calls))
    assert left == (set(BESIDE[name]()) if name in BESIDE else set())
