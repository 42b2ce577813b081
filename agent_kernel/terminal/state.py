"""What a terminal knows of a conversation, and what in it waits for the person."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, assert_never

from agent_kernel.protocol.events import (
    ApprovalRequestEvent,
    ApprovalResponseEvent,
    RunEvent,
    ServerEvent,
    SessionEvent,
    ToolAnsweredEvent,
    ToolCompleteEvent,
    ToolStartEvent,
    ToolStateEvent,
    UsageEvent,
)
from agent_kernel.protocol.views import PauseView, RunView, ToolCallView

ASK_USER = "ask_user"
CallEvent = (
    ToolStateEvent
    | ApprovalRequestEvent
    | ApprovalResponseEvent
    | ToolStartEvent
    | ToolCompleteEvent
    | ToolAnsweredEvent
)


@dataclass(frozen=True, slots=True)
class Approval:
    """A call waits for a decision."""

    call: ToolCallView

    @property
    def key(self) -> str:
        return f"approval {self.call.approval_id} {self.call.digest}"


@dataclass(frozen=True, slots=True)
class Question:
    """The model asks the person."""

    call: ToolCallView

    @property
    def key(self) -> str:
        return f"question {self.call.tool_call_id}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Nobody knows how a call ended."""

    call: ToolCallView

    @property
    def key(self) -> str:
        return f"outcome {self.call.tool_call_id}"


@dataclass(frozen=True, slots=True)
class Pause:
    """The run is at its budget, or repeats itself."""

    run: RunView
    pause: PauseView

    @property
    def key(self) -> str:
        return f"pause {self.pause.pause_id}"


Ask = Approval | Question | Outcome | Pause


class Conversation:
    """Built of a `session` and the events after it."""

    def __init__(self, session: SessionEvent) -> None:
        self.runs: dict[str, RunView] = {}
        self.calls: dict[str, ToolCallView] = {}
        """The calls of runs that are open, and of those that this program has seen."""
        self.answered: set[str] = set()
        """The keys of questions that were answered here: they are not asked again."""
        self.restart(session)

    def restart(self, session: SessionEvent) -> None:
        snapshot = session.snapshot
        self.conversation_id = snapshot.conversation_id
        self.runs = {run.run_id: run for run in snapshot.runs}
        self.calls = {call.tool_call_id: call for call in snapshot.tool_calls}

    @property
    def active(self) -> RunView | None:
        """The run that has the floor; a queued one only if no other runs."""
        going_on = [run for run in self.runs.values() if run.status in ("queued", "running")]
        return next((run for run in going_on if run.status == "running"), next(iter(going_on), None))

    @property
    def last(self) -> RunView | None:
        return next(reversed(self.runs.values()), None)

    def asks(self) -> list[Ask]:
        """What waits for the person and has not been answered here, in order."""
        run = self.active
        if run is None:
            return []
        found: list[Ask] = list(self._of_calls(run))
        if run.paused is not None:
            found.append(Pause(run, run.paused))
        return [ask for ask in found if ask.key not in self.answered]

    def _of_calls(self, run: RunView) -> Iterator[Ask]:
        for call in self.calls.values():
            if call.run_id != run.run_id:
                continue
            if call.state == "awaiting_approval":
                yield Approval(call)
            elif call.state == "executing" and call.tool_name == ASK_USER:
                yield Question(call)
            elif call.state == "unknown" and call.unknown_answer is None:
                yield Outcome(call)

    def apply(self, event: ServerEvent) -> None:
        match event:
            case SessionEvent():
                self.restart(event)
            case RunEvent():
                self.runs[event.run.run_id] = event.run
            case UsageEvent() if event.run_id in self.runs:
                self.runs[event.run_id] = self.runs[event.run_id].model_copy(update={"usage": event.usage})
            case ToolStateEvent() | ApprovalRequestEvent() | ApprovalResponseEvent():
                self._change(event, _before_it_runs(event))
            case ToolStartEvent() | ToolCompleteEvent() | ToolAnsweredEvent():
                self._change(event, self._as_it_runs(event))
            case _:
                return

    def _as_it_runs(self, event: ToolStartEvent | ToolCompleteEvent | ToolAnsweredEvent) -> dict[str, Any]:
        match event:
            case ToolStartEvent():
                known = self.calls.get(event.tool_call_id)
                # An earlier preview is of the model's arguments. Where others run, it is not that.
                kept = known.preview if known is not None and not known.edited else None
                preview = event.preview or kept
                return {"state": "executing", "tool_input": event.tool_input, "preview": preview}
            case ToolCompleteEvent():
                fields = {name: getattr(event, name) for name in ("state", "duration_ms", "truncated", "output_file")}
                reason = {} if event.reason is None else {"reason": event.reason}
                return fields | reason | {"result": event.tool_result, "waiting_behind": None}
            case ToolAnsweredEvent():
                return {"unknown_answer": event.answer}
            case _:
                assert_never(event)

    def _change(self, event: CallEvent, fields: dict[str, Any]) -> None:
        known = self.calls.get(event.tool_call_id)
        if known is None or known.run_id != event.run_id:
            self.calls.pop(event.tool_call_id, None)  # it comes behind the calls before it
            known = ToolCallView.model_construct(
                tool_call_id=event.tool_call_id,
                approval_id="",
                conversation_id=event.conversation_id,
                run_id=event.run_id or "",
                tool_name=getattr(event, "tool_name", ""),
                tool_input="",
                digest="",
                state="proposed",
                created_at=event.timestamp,
            )
        self.calls[event.tool_call_id] = known.model_copy(update=fields)


def _before_it_runs(event: ToolStateEvent | ApprovalRequestEvent | ApprovalResponseEvent) -> dict[str, Any]:
    match event:
        case ToolStateEvent():
            fields = {} if event.tool_input is None else {"tool_input": event.tool_input}
            return {"state": event.state, "waiting_behind": event.waiting_behind, **fields}
        case ApprovalRequestEvent():
            return {"state": "awaiting_approval"} | {name: getattr(event, name) for name in _OF_A_REQUEST}
        case ApprovalResponseEvent():
            fields = {name: getattr(event, name) for name in ("approval_id", "reason", "edited", "by", "decided_by")}
            return {"state": "approved" if event.approved else "denied", **fields}
        case _:
            assert_never(event)


_OF_A_REQUEST = ("approval_id", "tool_name", "tool_input", "digest", "warnings", "preview", "scopes", "rules")
