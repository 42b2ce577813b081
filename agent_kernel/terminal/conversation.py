"""What `agent-kernel chat` knows of a conversation, from its events, and what in it waits for a person."""

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
)
from agent_kernel.protocol.views import RunView, ToolCallView
from agent_kernel.terminal.connection import FAR_BEHIND

ASK_USER = "ask_user"
Ask = ToolCallView | RunView
"""What waits for a person: a call for a decision, for the answer to its question, or for a word on its unknown outcome;
or a run that is paused."""
CallEvent = (
    ToolStateEvent
    | ApprovalRequestEvent
    | ApprovalResponseEvent
    | ToolStartEvent
    | ToolCompleteEvent
    | ToolAnsweredEvent
)


def key_of(ask: Ask) -> str:
    """The same for what is the same to decide on."""
    if isinstance(ask, RunView):
        return ask.paused.pause_id if ask.paused is not None else ""
    return f"{ask.tool_call_id} {ask.state} {ask.digest}"


class Conversation:
    """Made of its events from the first one on."""

    def __init__(self, session: SessionEvent) -> None:
        runs = session.snapshot.runs
        going_on = [run for run in runs if run.ended_at is None]
        self.earlier = {run.run_id for run in runs} - {run.run_id for run in going_on or runs[-1:]}
        """The runs that had ended before this program began, but for the last one."""
        self.answered: set[str] = set()
        """What was answered here, and is not asked again."""
        self.runs: dict[str, RunView] = {}
        self.calls: dict[str, ToolCallView] = {}
        self._seq = 0
        self._known = session.last_seq
        self.apply(session)

    @property
    def is_caught_up(self) -> bool:
        """Whether it is as it stood when this program began, or as it was later."""
        return self._seq >= self._known

    @property
    def active(self) -> RunView | None:
        """The run that has the floor; a queued one only if no other runs."""
        going_on = sorted((run for run in self.runs.values() if run.ended_at is None), key=lambda run: run.status)
        return going_on[-1] if going_on and going_on[-1].status == "running" else next(iter(going_on), None)

    @property
    def last(self) -> RunView | None:
        return next(reversed(self.runs.values()), None)

    def waits(self) -> list[Ask]:
        """What waits for the person and has not been answered here, in order."""
        run = self.active
        if run is None:
            return []
        calls = [call for call in self.calls.values() if call.run_id == run.run_id and _waits(call)]
        found: list[Ask] = [*calls, run] if run.paused is not None else [*calls]
        return [ask for ask in found if key_of(ask) not in self.answered]

    def apply(self, event: ServerEvent) -> None:
        if isinstance(event, SessionEvent):
            if event.last_seq > self._seq + FAR_BEHIND:  # it stands for events that are too many to be sent
                self._seq = event.last_seq
                self.runs = {run.run_id: run for run in event.snapshot.runs}
                self.calls = {call.tool_call_id: call for call in event.snapshot.tool_calls}
            return
        self._seq = event.seq
        if isinstance(event, RunEvent):
            self.runs[event.run.run_id] = event.run
        elif isinstance(event, CallEvent):
            self._change(event)

    def _change(self, event: CallEvent) -> None:
        known = self.calls.get(event.tool_call_id)
        if known is None or known.run_id != event.run_id:
            self.calls.pop(event.tool_call_id, None)  # it comes behind the calls before it
            known = ToolCallView(
                tool_call_id=event.tool_call_id,
                approval_id="",
                conversation_id="",
                run_id=event.run_id or "",
                tool_name="",
                tool_input="",
                digest="",
                state="proposed",
                created_at=event.timestamp,
            )
        same = {name: value for name, value in event if name in ToolCallView.model_fields and value is not None}
        self.calls[event.tool_call_id] = known.model_copy(update=same | _changed(event))


def _waits(call: ToolCallView) -> bool:
    if call.state == "executing":
        return call.tool_name == ASK_USER
    return call.state == "awaiting_approval" or (call.state == "unknown" and call.unknown_answer is None)


def _changed(event: CallEvent) -> dict[str, Any]:
    """The fields of a call that an event changes and does not have by the same name."""
    match event:
        case ToolStateEvent():
            return {}
        case ApprovalRequestEvent():
            return {"state": "awaiting_approval"}
        case ApprovalResponseEvent():
            # A preview and warnings are of the model's arguments: where others run, they are not theirs.
            others: dict[str, Any] = {"preview": None, "warnings": []} if event.edited else {}
            return {"state": "approved" if event.approved else "denied", "decided_at": event.timestamp, **others}
        case ToolStartEvent():
            return {"state": "executing"}
        case ToolCompleteEvent():
            return {"result": event.tool_result}
        case ToolAnsweredEvent():
            return {"unknown_answer": event.answer}
        case _:
            assert_never(event)
