"""What a real kernel makes of requests on its control channel."""

from typing import Any

import pytest

from agent_kernel.protocol.kernel import Refused, read_reply
from tests.notebooks.kernel import TestKernel

pytestmark = pytest.mark.kernel


@pytest.mark.parametrize("content", [{}, {"run_id": ["run_x"]}, {"run_id": "run_unknown"}])
def test_a_request_that_does_not_fit_is_refused(shared_kernel: TestKernel, content: dict[str, Any]) -> None:
    assert isinstance(read_reply(shared_kernel.request("declare", **content), Refused), Refused)


def test_pages_do_not_hear_of_requests_and_hear_that_a_cell_runs_on(shared_kernel: TestKernel) -> None:
    assert shared_kernel.states_around_a_request() == ["busy execute_request", "execute_input", "idle execute_request"]
