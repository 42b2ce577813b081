"""What a real kernel makes of requests on its control channel."""

import pytest

from tests.notebooks.kernel import TestKernel

pytestmark = pytest.mark.kernel


def test_pages_do_not_hear_of_requests_and_hear_that_a_cell_runs_on(shared_kernel: TestKernel) -> None:
    assert shared_kernel.states_around_a_request() == ["busy execute_request", "execute_input", "idle execute_request"]
