"""State transitions of calls, each in one transaction with the events that show it."""

from typing import Any

from agent_kernel.approvals.offers import RULE_SCOPES, offered_rules
from agent_kernel.log import event_rows, tool_calls
from agent_kernel.log.measures import add_call
from agent_kernel.protocol.events import (
    ApprovalRequestEvent,
    ApprovalResponseEvent,
    LoggedEvent,
    ToolCompleteEvent,
    ToolStartEvent,
    ToolStateEvent,
    utc_now,
)
from agent_kernel.protocol.views import ToolCallView
from agent_kernel.protocol.vocabulary import CallState
from agent_kernel.runtime.state.commits import Commit
from agent_kernel.tools import outcome_texts

CUT_OFF = "The model was cut off while it wrote this call."


def propose(commit: Commit, proposal: tool_calls.Proposal, fault: str | None) -> ToolCallView:
    """Commit a call as the model asked for it, and its end where a `fault` makes it invalid."""
    call = tool_calls.propose(commit.sql, commit.number, proposal)
    _show(commit, ToolStateEvent, call, state="proposed")
    if fault is None:
        return call
    return settle(commit, call.tool_call_id, "invalid", outcome_texts.invalid(fault), reason=fault)


def settle(
    commit: Commit,
    tool_call_id: str,
    state: CallState,
    result: str,
    *,
    reason: str | None = None,
    timed_out: bool = False,
    **columns: Any,
) -> ToolCallView:
    """End a call: its outcome is committed, then shown. Raises `IllegalTransition` if it ended before."""
    if reason is not None:
        columns["reason"] = reason
    call = tool_calls.move(
        commit.sql, commit.number, tool_call_id, state, commit.audited, result=result, ended_at=utc_now(), **columns
    )
    _end(commit, call, timed_out=timed_out)
    return call


def _end(commit: Commit, call: ToolCallView, *, timed_out: bool = False) -> None:
    """Measure and show the end of a call."""
    commit.measured.append(add_call(commit.sql, call, timed_out=timed_out))
    status = outcome_texts.outcome_status(call.state)
    _show(commit, ToolCompleteEvent, call, tool_result=call.result or "", status=status)


def cut_off(run_id: str, tool_call_id: str) -> ToolCompleteEvent:
    """The end of the card of a call that the model did not finish writing, which the log does not have."""
    return ToolCompleteEvent(
        run_id=run_id,
        tool_call_id=tool_call_id,
        tool_name="",
        tool_result=outcome_texts.cancelled_before_start(CUT_OFF),
        status="cancelled",
        state="cancelled",
        reason=CUT_OFF,
    )


def end_unfinished_cards(commit: Commit, run_id: str) -> None:
    """End the cards of calls that the model did not finish writing."""
    for tool_call_id in event_rows.unfinished_cards(commit.sql, commit.number, run_id):
        commit.emit(cut_off(run_id, tool_call_id))


def settle_all(commit: Commit, run_id: str, unknown: str, cancelled: str | None) -> None:
    """End a run's executing calls with an unknown outcome, for the reason `unknown`, and those that had not started as
    `cancelled` where there is a reason for that."""
    for call in tool_calls.list_calls(commit.sql, run_id=run_id):
        if call.state == "executing":
            settle(commit, call.tool_call_id, "unknown", outcome_texts.unknown(unknown), reason=unknown)
        elif call.state in tool_calls.UNFINISHED and cancelled is not None:
            text = outcome_texts.cancelled_before_start(cancelled)
            settle(commit, call.tool_call_id, "cancelled", text, reason=cancelled)


def request_approval(commit: Commit, call: ToolCallView, expires_at: str | None) -> ToolCallView:
    asked = tool_calls.move(
        commit.sql,
        commit.number,
        call.tool_call_id,
        "awaiting_approval",
        commit.audited,
        place=call.place,
        asked_at=utc_now(),
    )
    scopes, offered = ["once", *RULE_SCOPES], offered_rules(call)
    _show(commit, ApprovalRequestEvent, call, scopes=scopes, rules=offered, expires_at=expires_at)
    return asked


def apply_verdict(
    commit: Commit,
    approval_id: str,
    verdict: tool_calls.Verdict,
    *,
    denial: str,
    seen_digest: str | None = None,
) -> ToolCallView:
    """Commit a decision, and the end of a call that was denied. Raises as `log.tool_calls.commit_decision`."""
    call = tool_calls.commit_decision(
        commit.sql, approval_id, verdict, commit.audited, denial=denial, seen_digest=seen_digest
    )
    _show(commit, ApprovalResponseEvent, call, approved=verdict.approved)
    if not verdict.approved:
        _end(commit, call)
    return call


def start(commit: Commit, call: ToolCallView) -> ToolCallView:
    """Commit `executing`, before the side effect."""
    started = tool_calls.begin(commit.sql, commit.number, call.tool_call_id, call.digest)
    _show_start(commit, call)
    return started


def _show(commit: Commit, kind: type[LoggedEvent], call: ToolCallView, **fields: Any) -> None:
    """Emit an event about a call. It has the call's own values, but for `fields`."""
    shared = kind.model_fields.keys() & ToolCallView.model_fields.keys() - {"conversation_id"}
    commit.emit(kind(**{name: getattr(call, name) for name in shared} | fields))


def show_queue_position(commit: Commit, call: ToolCallView, cell: int | None) -> None:
    _show(commit, ToolStateEvent, call, state="executing", waiting_behind=cell)


def _show_start(commit: Commit, call: ToolCallView) -> None:
    shown = call.preview if call.preview and call.preview.kind == "diff" else None
    _show(commit, ToolStartEvent, call, preview=shown)
