"""A short round of each kind of `python -m tests.faults`: processes are killed, nothing is lost, nothing done twice."""

import pytest

from tests.faults import cell_rounds, mcp_rounds, page_rounds, runtime_rounds, server_rounds

SEED = 3


def test_a_runtime_that_is_killed_at_any_moment_loses_nothing_and_does_nothing_twice() -> None:
    figures = runtime_rounds.run(2, SEED)
    assert figures.notes == []
    assert figures.kills >= 2


@pytest.mark.kernel
def test_a_server_that_is_killed_at_any_moment_loses_nothing_and_does_nothing_twice() -> None:
    assert server_rounds.run_server(1, SEED).notes == []


@pytest.mark.kernel
def test_a_call_of_an_agent_outside_runs_once_or_honestly_not_whatever_the_server_goes_through() -> None:
    assert mcp_rounds.run_mcp(1, SEED).notes == []


@pytest.mark.kernel
def test_a_kernel_that_is_killed_restarted_or_shut_down_leaves_nothing_open() -> None:
    assert server_rounds.run_kernel(1, SEED).notes == []


@pytest.mark.kernel
def test_what_people_do_with_their_notebooks_leaves_nothing_open_and_runs_nothing_twice() -> None:
    assert page_rounds.run_habits(1, SEED).notes == []


@pytest.mark.kernel
def test_an_interrupt_at_any_moment_ends_what_has_the_floor_and_nothing_else() -> None:
    assert page_rounds.run_interrupts(1, SEED).notes == []


@pytest.mark.kernel
def test_cells_are_changed_and_run_once_or_honestly_not_in_a_page_that_goes_away_and_in_the_file() -> None:
    assert cell_rounds.run_cells(1, SEED).notes == []
