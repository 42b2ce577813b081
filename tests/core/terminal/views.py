"""Events and sessions for a terminal's tests."""

import io
from typing import Any

from agent_kernel.protocol.budgets import BudgetLimits
from agent_kernel.protocol.events import SessionEvent
from agent_kernel.protocol.views import ConversationView, PolicyView, RunView, ToolCallView, Usage
from agent_kernel.terminal.state import Conversation
from agent_kernel.terminal.text import Terminal
from agent_kernel.terminal.transcript import Transcript

NOW = "2026-11-22T18:00:00.000Z"


def run_view(**fields: Any) -> RunView:
    values: dict[str, Any] = {
        "run_id": "run",
        "conversation_id": "chat",
        "prompt": "Add up.",
        "status": "running",
        "model": "fake",
        "recorded": False,
        "policy": PolicyView(mode="ask"),
        "usage": Usage(),
        "budget": BudgetLimits(),
        "started_at": NOW,
    }
    return RunView(**(values | fields))


def call_view(call_id: str = "call", **fields: Any) -> ToolCallView:
    values: dict[str, Any] = {
        "tool_call_id": call_id,
        "approval_id": f"approval-{call_id}",
        "conversation_id": "chat",
        "run_id": "run",
        "tool_name": "run_python",
        "tool_input": '{"code": "1 + 1"}',
        "digest": f"digest-{call_id}",
        "state": "awaiting_approval",
        "created_at": NOW,
    }
    return ToolCallView(**(values | fields))


def session(*calls: ToolCallView, **of_run: Any) -> SessionEvent:
    snapshot = ConversationView(
        conversation_id="chat",
        kernel_id=None,
        model=None,
        status="running",
        created_at=NOW,
        messages=[],
        tool_calls=list(calls),
        last_seq=1,
        runs=[run_view(**of_run)],
    )
    return SessionEvent(tools=[], snapshot=snapshot, pending=[], last_seq=1)


class Page:
    """A transcript on a terminal of so many columns, whose text can be read."""

    def __init__(self, *calls: ToolCallView, columns: int = 80, asks: bool = True, **of_run: Any) -> None:
        self._out = io.StringIO()
        self.terminal = Terminal(self._out, columns=lambda: columns, colour=False)
        self.conversation = Conversation(session(*calls, **of_run))
        self.transcript = Transcript(self.terminal, self.conversation, asks=asks)

    def show(self, *events: Any) -> str:
        for event in events:
            self.conversation.apply(event)
            self.transcript.show(event)
        self.transcript.end_text()
        return self.text

    @property
    def text(self) -> str:
        return self._out.getvalue()
