"""Shorthands for writing a model's turns in tests."""

import json
from typing import Any

from agent_kernel.models.base import ModelTurn, RequestedCall, TokenUsage


def say(text: str, *, reasoning: str = "", usage: tuple[int, int] = (0, 0)) -> ModelTurn:
    """A turn that answers and ends the run. `usage` is tokens in and tokens out."""
    return ModelTurn(content=text, reasoning=reasoning, usage=TokenUsage(*usage))


def call(tool_name: str, /, *, call_id: str = "", **arguments: Any) -> ModelTurn:
    """A turn that asks for one call: `call("run_python", code="1 + 1")`."""
    return ModelTurn(content="", tool_calls=(requested(tool_name, arguments, call_id=call_id),))


def calls(*turns: ModelTurn, text: str = "", reasoning: str = "", usage: tuple[int, int] = (0, 0)) -> ModelTurn:
    """A turn that asks for several calls at once: `calls(call("a"), call("b"), text="Let me look.")`."""
    return ModelTurn(
        content=text or "".join(turn.content for turn in turns),
        reasoning=reasoning,
        tool_calls=tuple(one for turn in turns for one in turn.tool_calls),
        usage=TokenUsage(*usage),
    )


def requested(tool_name: str, arguments: dict[str, Any] | str, *, call_id: str = "") -> RequestedCall:
    """One call. Arguments given as text are sent as they are, so they may be malformed."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return RequestedCall(id=call_id, name=tool_name, arguments=text)
