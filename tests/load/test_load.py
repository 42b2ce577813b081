"""A short version of `python -m tests.load`: nothing is lost in a crowd, and the server lets go of all of it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.load.measures import LoadedServer, grew, loaded_server, many_approvals, many_calls, many_clients

pytestmark = [pytest.mark.slow, pytest.mark.kernel, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def loaded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LoadedServer]:
    async with loaded_server(tmp_path_factory.mktemp("load")) as one:
        yield one


async def test_many_approvals_are_answered_at_once_and_leave_nothing_behind(loaded: LoadedServer) -> None:
    first, again = await many_approvals(loaded, 20), await many_approvals(loaded, 20)
    assert first.let_go, str(first)
    assert again.let_go, str(again)
    assert not grew(first, again), (first, again)


async def test_every_one_of_many_clients_gets_every_event(loaded: LoadedServer) -> None:
    measure = await many_clients(loaded, 60)
    assert measure.peak.files > 60
    assert measure.let_go, str(measure)


async def test_a_run_of_many_calls_runs_each_once_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async with loaded_server(tmp_path, allows=True) as loaded:
        measure = await many_calls(loaded, 100, 20)
        assert measure.let_go, str(measure)
