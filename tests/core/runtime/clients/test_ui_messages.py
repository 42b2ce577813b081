"""What events become as the AI SDK's UI messages, without a server."""

from typing import Any

import pytest

from agent_kernel.protocol.events import (
    ApprovalRequestEvent,
    ApprovalResponseEvent,
    CompleteEvent,
    Event,
    MessageEvent,
    TokenEvent,
    ToolCompleteEvent,
    ToolOutputEvent,
    ToolStartEvent,
    ToolStateEvent,
    UsageEvent,
)
from agent_kernel.protocol.views import OutputView, Usage
from agent_kernel.protocol.vocabulary import CallState
from agent_kernel.runtime.clients.ui_answers import IMAGE_CHARACTERS, Chunk
from agent_kernel.runtime.clients.ui_messages import History

READ_BY_BOTH = {
    "start", "start-step", "finish-step", "finish", "abort", "error", "message-metadata", "file",
    "text-start", "text-delta", "text-end", "reasoning-start", "reasoning-delta", "reasoning-end",
    "tool-input-start", "tool-input-available", "tool-approval-request",
    "tool-output-available", "tool-output-error", "tool-output-denied",
}  # fmt: skip
"""The chunks that versions 6 and 7 both read, beside `data-*`."""


class Told:
    """A conversation that is told event by event."""

    def __init__(self) -> None:
        self.history = History("chat")
        self.chunks: list[Chunk] = []
        self._seq = 0

    def __call__(self, *events: Event, live: bool = True) -> list[Chunk]:
        new: list[Chunk] = []
        for event in events:
            self._seq += 1
            told: dict[str, Any] = event.model_copy(update={"seq": self._seq, "run_id": "r"}).model_dump(mode="json")
            new += self.history.take(told, live=live)[1]
        self.chunks += new
        assert {one["type"] for one in new if not one["type"].startswith("data-")} <= READ_BY_BOTH
        return new

    @property
    def parts(self) -> list[dict[str, Any]]:
        """Of the last message."""
        parts: list[dict[str, Any]] = self.history.messages({})[-1]["parts"]
        return parts

    @property
    def call(self) -> dict[str, Any]:
        """The part of the last call."""
        return [part for part in self.parts if part["type"].startswith("tool-")][-1]


def prompt(text: str = "Go.", message_id: str = "u1") -> MessageEvent:
    return MessageEvent(message_id=message_id, role="user", content=text)


def proposed(name: str = "c1", tool: str = "run_python", tool_input: str | None = '{"code":"1"}') -> ToolStateEvent:
    return ToolStateEvent(tool_call_id=name, tool_name=tool, tool_input=tool_input, state="proposed")


def turn_over() -> UsageEvent:
    return UsageEvent(usage=Usage(steps=1))


def asked(name: str = "c1") -> ApprovalRequestEvent:
    names = {"approval_id": f"apr_{name}", "tool_call_id": name, "tool_name": "run_python", "digest": "d"}
    return ApprovalRequestEvent(**names, tool_input='{"code":"1"}')


def approved(name: str = "c1") -> ApprovalResponseEvent:
    return ApprovalResponseEvent(approval_id=f"apr_{name}", tool_call_id=name, approved=True, by="user")


def started(name: str = "c1", tool_input: str = '{"code":"1"}') -> ToolStartEvent:
    return ToolStartEvent(tool_call_id=name, tool_name="run_python", tool_input=tool_input)


def ended(state: CallState = "success", name: str = "c1", text: str = "one") -> ToolCompleteEvent:
    status: Any = state if state in ("success", "denied", "unknown", "cancelled") else "error"
    return ToolCompleteEvent(tool_call_id=name, tool_name="run_python", tool_result=text, status=status, state=state)


def shown(**fields: Any) -> ToolOutputEvent:
    return ToolOutputEvent(tool_call_id="c1", index=0, output=OutputView(**fields))


def types(chunks: list[Chunk]) -> list[str]:
    return [one["type"] for one in chunks]


def test_a_call_that_asks_waits_and_the_outcome_comes_before_the_next_step() -> None:
    told = Told()
    told(prompt(), proposed(tool_input=None), proposed(), turn_over())
    answer: Any = told.history.answer
    assert not answer.waits
    told(asked())
    assert (told.call["state"], answer.waits) == ("approval-requested", True)
    assert list(answer.closing())[-1] == {"type": "finish", "finishReason": "tool-calls"}
    before = len(told.chunks)
    told(approved(), started())
    assert (told.call["state"], answer.waits) == ("approval-responded", False)
    told(ended(), TokenEvent(message_id="m2", content="Done."))
    new = types(told.chunks[before:])
    assert new == ["data-decision", "tool-output-available", "finish-step", "start-step", "text-start", "text-delta"]
    assert told.call["approval"] == {"id": "apr_c1", "approved": True}


def test_a_page_that_comes_back_is_not_asked_again_about_a_call_that_is_decided() -> None:
    told = Told()
    told(prompt(), proposed(), turn_over(), asked())
    answer = told.history.answer
    assert answer is not None
    assert "tool-approval-request" in types(answer.lacking(0, {}))
    told(approved(), started(tool_input='{"code":true}'), shown(kind="stream", name="stdout", text="one"))
    lacking = answer.lacking(0, {})
    assert "tool-approval-request" not in types(lacking)
    assert [one["input"] for one in lacking if one["type"] == "tool-input-available"] == [{"code": True}]
    assert (lacking[-1]["preliminary"], types(lacking)[:2]) == (True, ["start-step", "tool-input-start"])


@pytest.mark.parametrize("state", ["success", "unknown"])
def test_a_run_that_ends_after_its_calls_leaves_no_step_that_a_page_would_send_again(state: CallState) -> None:
    """The package's rule: every call of the last step has ended."""
    told = Told()
    told(prompt(), proposed(), turn_over(), approved(), started(), ended(state))
    if state == "success":
        told(CompleteEvent(message_id=None, finish_reason="cancelled", usage=Usage()))
    last = max(at for at, part in enumerate(told.parts) if part["type"] == "step-start")
    assert not [part for part in told.parts[last:] if part["type"].startswith("tool-")]
    assert types(told.chunks)[-1] in ("message-metadata", "data-unknown-outcome")


def test_outputs_are_bounded_and_pictures_are_files() -> None:
    told = Told()
    told(prompt(), proposed(), turn_over(), approved(), started())
    told(*[shown(kind="stream", name="stdout", text="x" * 50_000) for _ in range(10)])
    png = {"image/png": "iVBO\nRw0K", "text/plain": "<Figure>", "text/html": "h" * 10**6}
    huge = {"image/png": "A" * (IMAGE_CHARACTERS + 1)}
    told(*(shown(kind="display", data=data) for data in (png, huge)), ended())
    assert [part["url"] for part in told.parts if part["type"] == "file"] == ["data:image/png;base64,iVBORw0K"]
    outputs = told.call["output"]["outputs"]
    assert sum(len(str(one)) for one in outputs) < 110_000
    assert [one["data"] for one in outputs if one["output_type"] == "display_data"] == [{"text/plain": "<Figure>"}, {}]
