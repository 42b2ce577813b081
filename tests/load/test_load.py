"""A short version of `python -m tests.load`: nothing is lost in a crowd, and the server lets go of all of it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.load.measures import (
    SPARE_FILES,
    LoadedServer,
    Measure,
    loaded_server,
    many_approvals,
    many_calls,
    many_faces,
)

pytestmark = [pytest.mark.slow, pytest.mark.kernel, pytest.mark.asyncio(loop_scope="module")]
SPARE_MB = 40


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def loaded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LoadedServer]:
    async with loaded_server(tmp_path_factory.mktemp("load")) as one:
        yield one


def assert_let_go(measure: Measure) -> None:
    assert measure.after.files <= measure.before.files + SPARE_FILES
    assert measure.after.memory_mb <= measure.before.memory_mb + SPARE_MB


async def test_many_approvals_are_answered_at_once(loaded: LoadedServer) -> None:
    assert_let_go(await many_approvals(loaded, 20))


async def test_every_one_of_many_faces_gets_every_event(loaded: LoadedServer) -> None:
    measure = await many_faces(loaded, 60)
    assert measure.peak.files >= measure.before.files + 60
    assert_let_go(measure)


async def test_a_run_of_many_calls_runs_each_once(tmp_path: Path) -> None:
    async with loaded_server(tmp_path, allows=True) as loaded:
        assert_let_go(await many_calls(loaded, 100, 20))
