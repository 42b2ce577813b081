"""The stand-in for the model of a call that an agent outside has asked for."""

from typing import Any

import pytest

from agent_kernel.models.base import ClientModel, ModelRequest, RequestedCall
from tests.core.models.model_fixtures import collect

PROMPT = "Codex asks (unverified name, by MCP)"
ASKED: dict[str, Any] = {"role": "user", "content": PROMPT}
CALLED: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": [{"id": "call_1"}]}
RESULT: dict[str, Any] = {"role": "tool", "tool_call_id": "call_1", "content": "42"}
DONE: dict[str, Any] = {"role": "assistant", "content": "The result is for Codex."}
MESSAGE: dict[str, Any] = {"role": "user", "content": "Do more."}


SAID = {
    "at first": ([ASKED], True),
    "with its result": ([ASKED, CALLED, RESULT], False),
    "with a message": ([ASKED, CALLED, RESULT, MESSAGE], False),
    "another run": ([ASKED, CALLED, RESULT, DONE, ASKED], True),
}


@pytest.mark.parametrize(("said", "asks"), SAID.values(), ids=SAID)
async def test_a_call_is_asked_for_once_in_a_run_however_often_its_model_is_asked(said: list[Any], asks: bool) -> None:
    model = ClientModel("Codex", PROMPT, RequestedCall("", "run_python", "{}"))
    [turn] = await collect(model, ModelRequest([{"role": "system", "content": ""}, *said]))
    assert bool(turn.tool_calls) is asks
