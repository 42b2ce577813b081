"""A turn of a long conversation costs what one of a short conversation costs."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.counts.counting import CountedModel, CountedRuntime

Open = Callable[..., Any]


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Open]:
    """Opens a counted runtime whose first run, which fills caches, is over."""
    runtimes: list[CountedRuntime] = []

    async def make(**model: int) -> CountedRuntime:
        counted = await CountedRuntime.open(tmp_path / f"{len(runtimes)}.sqlite", CountedModel(**model))
        runtimes.append(counted)
        await counted.run()
        return counted

    yield make
    for counted in runtimes:
        await counted.runtime.aclose()


async def test_a_turn_is_a_few_kilobytes_and_no_more_late_than_early(opened: Open) -> None:
    counted = await opened(calls=1)
    sizes = [await counted.bytes()]
    for _ in range(2):
        for _ in range(30):
            await counted.run()
        sizes.append(await counted.bytes())
    early, late = (sizes[1] - sizes[0]) / 30, (sizes[2] - sizes[1]) / 30
    assert late <= 1.2 * early
    assert late <= 6_000, "900 are two audit entries in plain text, some 2,000 the events"
