"""A run to make records of."""

import json
import re
from typing import Any

from agent_kernel.protocol.views import MessageView, OutputView, PolicyView, RunView, ToolCallView, Usage
from agent_kernel.protocol.vocabulary import BudgetLimits

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+M8AAAMBAQDJ/pLvAAAAAElFTkSuQmCC"


def a_run(**changes: Any) -> RunView:
    values: dict[str, Any] = {
        "run_id": "run_1",
        "conversation_id": "conv_1",
        "prompt": "Find duplicate orders in `orders`.",
        "status": "complete",
        "model": "gpt-5.2",
        "recorded": False,
        "policy": PolicyView(mode="ask"),
        "usage": Usage(input_tokens=20_100, output_tokens=1_380, total_tokens=21_480, cost=0.0389),
        "budget": BudgetLimits(),
        "started_at": "2026-11-20T14:02:09.000Z",
        "ended_at": "2026-11-20T14:12:00.000Z",
    }
    return RunView(**{**values, **changes})


def a_call(number: int = 1, tool: str = "run_python", arguments: Any = None, **changes: Any) -> ToolCallView:
    given = {"code": "orders.head()"} if arguments is None else arguments
    values: dict[str, Any] = {
        "tool_call_id": f"call_{number}",
        "approval_id": f"apr_{number}",
        "conversation_id": "conv_1",
        "run_id": "run_1",
        "tool_name": tool,
        "tool_input": given if isinstance(given, str) else json.dumps(given),
        "digest": "0" * 64,
        "state": "success",
        "by": "user",
        "created_at": "2026-11-20T14:02:30.000Z",
        "decided_at": "2026-11-20T14:02:40.000Z",
        "duration_ms": 300,
    }
    return ToolCallView(**{**values, **changes})


def says(content: str, *calls: ToolCallView) -> MessageView:
    return MessageView(
        message_id="msg", run_id="run_1", role="assistant", content=content, tool_calls=[c.tool_call_id for c in calls]
    )


def printed(text: str) -> OutputView:
    return OutputView(kind="stream", name="stdout", text=text)


def displayed(**data: Any) -> OutputView:
    return OutputView(kind="display", data={key.replace("_", "/"): value for key, value in data.items()})


def raised(text: str) -> OutputView:
    return OutputView(kind="error", text=text)


def bare(markup: str) -> str:
    """A record's HTML without its looks, without marks of what varies, and without what keeps money from being taken
    for formulas."""
    plain = re.sub(r'<span>([$\\])</span>| style="[^"]*"', r"\1", markup)
    return re.sub(r'<span data-role="varies">(.*?)</span>', r"\1", plain).replace(' data-role="varies"', "")
