"""A short round of each kind of `python -m tests.faults`: processes are killed, interrupted and left, nothing is lost,
nothing done twice."""

import pytest

from tests.faults.__main__ import SUITES

SEED = 3
WITH_KERNELS = [pytest.param(name, marks=pytest.mark.kernel) for name in SUITES if not name.startswith("runtime")]


@pytest.mark.parametrize("name", ["runtime", *WITH_KERNELS])
def test_whatever_is_killed_at_any_moment_nothing_is_lost_or_left_open_or_done_twice_or_undecided(name: str) -> None:
    run, _ = SUITES[name]
    figures = run(2 if name == "runtime" else 1, SEED)
    assert figures.notes == []
    assert figures.kills >= 2 or name != "runtime"
