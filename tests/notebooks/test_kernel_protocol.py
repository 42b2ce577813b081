"""A real kernel answers each request of the protocol with a reply of its type, or says why not."""

from typing import Any, get_args

import pytest

from agent_kernel.protocol.calls import ApprovedCall
from agent_kernel.protocol.kernel import AnyRequest, Refused, read_reply
from agent_kernel.protocol.views import PolicyView, RunView, Usage
from agent_kernel.protocol.vocabulary import BudgetLimits
from tests.notebooks.kernel import TestKernel

pytestmark = pytest.mark.kernel

RUN = RunView(
    run_id="run_x",
    conversation_id="conv_x",
    prompt="Go.",
    status="running",
    model="demo",
    recorded=False,
    policy=PolicyView(mode="ask"),
    usage=Usage(),
    budget=BudgetLimits(),
    started_at="2026-11-22T10:00:00Z",
)
FIELDS: dict[str, Any] = {
    "run_id": "run_x",
    "run": RUN,
    "result": {"run": RUN, "text": "", "messages": [], "tool_calls": []},
    "approval_id": "apr_x",
    "call": ApprovedCall("apr_x", "1", "run_python", '{"code":"1"}', digest="of something else"),
    "tool_name": "run_python",
    "arguments_json": '{"code":"1"}',
    "path": "none.png",
    "names": ["none.csv"],
    "question_id": "ask_x",
}
REFUSED = {"declare", "state", "finish", "again", "call"}
"""The run is not known there, and the digest is not that of the arguments."""


def test_each_request_gets_a_reply_of_its_type(shared_kernel: TestKernel) -> None:
    refused = set()
    for request_type in get_args(AnyRequest):
        needed = {name: FIELDS[name] for name, field in request_type.model_fields.items() if field.is_required()}
        request = request_type.model_validate(needed)
        content = request.model_dump(mode="json")
        reply = read_reply(shared_kernel.request(content.pop("op"), **content), request_type.reply_type())
        if isinstance(reply, Refused):
            refused.add(request.op)
        else:
            assert isinstance(reply, request_type.reply_type())
    assert refused == REFUSED


@pytest.mark.parametrize("content", [{}, {"run_id": ["run_x"]}])
def test_a_request_that_does_not_fit_is_refused(shared_kernel: TestKernel, content: dict[str, Any]) -> None:
    assert isinstance(read_reply(shared_kernel.request("declare", **content), Refused), Refused)


def test_pages_do_not_hear_of_requests_and_hear_that_a_cell_runs_on(shared_kernel: TestKernel) -> None:
    assert shared_kernel.states_around_a_request() == ["busy execute_request", "execute_input", "idle execute_request"]
