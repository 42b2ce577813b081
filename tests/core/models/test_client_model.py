"""The stand-in for the model of a call that an agent outside has asked for."""

from typing import Any

import pytest

from agent_kernel.models.base import ClientModel, ModelRequest, ModelTurn, RequestedCall

PROMPT = "Codex asks (unverified name, by MCP)"
ASKED: dict[str, Any] = {"role": "user", "content": PROMPT}
CALLED: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": [{"id": "call_1"}]}
RESULT: dict[str, Any] = {"role": "tool", "tool_call_id": "call_1", "content": "42"}
DONE: dict[str, Any] = {"role": "assistant", "content": "The result is for Codex."}
MESSAGE: dict[str, Any] = {"role": "user", "content": "Do more."}


@pytest.mark.parametrize(
    ("said", "asks"),
    [
        ([ASKED], True),
        ([ASKED, CALLED, RESULT], False),
        ([ASKED, CALLED, RESULT, DONE], False),
        ([ASKED, CALLED, RESULT, MESSAGE], False),
        ([ASKED, CALLED, RESULT, DONE, ASKED], True),
        ([ASKED, MESSAGE], True),
    ],
    ids=["at first", "with its result", "killed before its end", "with a message", "another run", "a message before"],
)
async def test_a_call_is_asked_for_once_in_a_run_however_often_its_model_is_asked(
    said: list[dict[str, Any]], asks: bool
) -> None:
    model = ClientModel("Codex", PROMPT, RequestedCall("", "run_python", "{}"))
    request = ModelRequest(messages=({"role": "system", "content": ""}, *said), tools=())
    [turn] = [item async for item in model.stream(request)]
    assert bool(turn.tool_calls) is asks
