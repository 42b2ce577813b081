"""A short version of `python -m tests.faults`: processes killed at random moments, nothing lost, nothing twice."""

import pytest

from tests.faults import page_rounds, runtime_rounds, server_rounds

pytestmark = pytest.mark.slow
SEED = 3


def test_a_runtime_that_is_killed_at_any_moment_loses_nothing_and_does_nothing_twice() -> None:
    figures = runtime_rounds.run(6, SEED)
    assert figures.notes == []
    assert figures.kills >= 6
    assert figures.looks > 0


@pytest.mark.kernel
def test_a_server_that_is_killed_at_any_moment_loses_nothing_and_does_nothing_twice() -> None:
    assert server_rounds.run_server(2, SEED).notes == []


@pytest.mark.kernel
def test_a_kernel_that_is_killed_restarted_or_shut_down_leaves_nothing_open() -> None:
    assert server_rounds.run_kernel(3, SEED).notes == []


@pytest.mark.kernel
def test_what_people_do_with_their_notebooks_leaves_nothing_open_and_runs_nothing_twice() -> None:
    assert page_rounds.run_habits(4, SEED).notes == []


@pytest.mark.kernel
def test_an_interrupt_at_any_moment_ends_what_has_the_floor_and_nothing_else() -> None:
    assert page_rounds.run_interrupts(4, SEED).notes == []
