"""The tool node: one call from `proposed` to its outcome. Failures of calls are outcomes, never exceptions."""

import asyncio
import logging
import time
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta

from agent_kernel.approvals.scripted import ScriptedDecision
from agent_kernel.errors import AlreadyDecided, IllegalTransition, InvalidArguments
from agent_kernel.log import tool_calls
from agent_kernel.protocol.calls import Outcome
from agent_kernel.protocol.views import ToolCallView
from agent_kernel.runtime.state.active_run import ActiveRun
from agent_kernel.runtime.tool_calls import transitions
from agent_kernel.runtime.tool_calls.execution import carry_out, finish, is_for_page, turn_of
from agent_kernel.runtime.tool_calls.policy_check import by_policy, check_policy
from agent_kernel.runtime.tool_calls.previews import with_present_card
from agent_kernel.runtime.tool_calls.script_decisions import note_decision, scripted_verdict
from agent_kernel.tools import outcome_texts
from agent_kernel.tools.builtin.places import UNKNOWN

logger = logging.getLogger(__name__)
_MOVED = "Its path leads to another file than when it was approved: a link was changed."
NO_ANSWER = "The script's answer was lost when the run was interrupted. Run the cell again."
NOBODY = "Nobody was there to ask: this notebook ran without a page."


async def run_tool_call(run: ActiveRun, tool_call_id: str) -> None:
    """Have a call decided, and run it. Returns once the log has its outcome."""
    with run.task():
        try:
            decided = await _decided(run, await run.read_call(tool_call_id))
            if decided.state == "approved":
                await _run_approved(run, decided)
        except (IllegalTransition, AlreadyDecided) as race:
            # The call was cancelled or superseded between two of our steps; that outcome stands.
            logger.debug("%s", race)


async def _decided(run: ActiveRun, call: ToolCallView) -> ToolCallView:
    """The call once it is decided: a person may be quicker than the tool's own check."""
    try:
        match call.state:
            case "proposed":
                return await _decide(run, call)
            case "awaiting_approval":
                return await _await_earlier_request(run, call)
            case _:
                return call
    except (IllegalTransition, AlreadyDecided) as race:
        logger.debug("%s", race)
        return await run.read_call(call.tool_call_id)


async def _decide(run: ActiveRun, call: ToolCallView) -> ToolCallView:
    if not run.script.given:
        return await _decide_by_policy(run, call)
    async with run.script_turn:
        decided = await _decide_by_policy(run, call)
    if decided.state != "proposed":
        return decided
    return await _ask(run, decided)  # not in the turn: the script's say on other calls waits for nobody


async def _decide_by_policy(run: ActiveRun, call: ToolCallView) -> ToolCallView:
    """The call as policy decided it, or the run's script or a person where policy asks. It is still proposed where the
    run's script leaves it to a person."""
    while True:
        policy = run.policy
        judgement = await check_policy(run, call.tool_name, call.tool_input)
        if judgement.approval == "deny":
            break
        try:
            call = await with_present_card(run, call, judgement)
        except InvalidArguments as refusal:
            return await _refuse(run, call, str(refusal))
        if run.policy is policy:  # else the policy was switched while the executor was asked
            break
    call = call.model_copy(update={"place": judgement.place})
    asks = judgement.approval == "ask"
    if run.script.given and (asks or (judgement.approval == "allow" and is_for_page(run, call.tool_name))):
        said = await scripted_verdict(run, call, judgement)
        return call if said is None else await commit_verdict(run, call, said)
    if not asks:
        return await commit_verdict(run, call, by_policy(judgement))
    if run.attended:
        return await _ask(run, call)
    return await commit_verdict(run, call, tool_calls.Verdict(False, "policy", NOBODY, place=judgement.place))


async def _refuse(run: ActiveRun, call: ToolCallView, fault: str) -> ToolCallView:
    """End a call that can't be shown to a person, with its fault for the model."""
    result = outcome_texts.invalid(fault)
    return await run.commit(
        lambda commit: transitions.settle(commit, call.tool_call_id, "invalid", result, reason=fault)
    )


async def commit_verdict(run: ActiveRun, call: ToolCallView, verdict: tool_calls.Verdict) -> ToolCallView:
    # A script has a person's words, which the model hears as it heard them when they were recorded.
    denial = outcome_texts.denied("by policy" if verdict.by == "policy" else "by the user", verdict.reason)
    return await run.commit(lambda commit: transitions.apply_verdict(commit, call.approval_id, verdict, denial=denial))


async def _ask(run: ActiveRun, call: ToolCallView) -> ToolCallView:
    seconds = run.settings.approval_seconds
    expires = None
    if seconds is not None:
        expires = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")
    decision = run.calls.decisions.expect(call.approval_id)
    try:
        asked = await run.commit(lambda commit: transitions.request_approval(commit, call, expires))
        return await _await_decision(run, asked, decision)
    finally:
        decision.cancel()  # nobody is waited for where the call has ended meanwhile


async def _await_earlier_request(run: ActiveRun, call: ToolCallView) -> ToolCallView:
    """Wait for the answer to a request that was shown by an earlier process."""
    decision = run.calls.decisions.expect(call.approval_id)
    try:
        now = await run.read_call(call.tool_call_id)
        if now.state != "awaiting_approval":
            return now  # it was answered between the two reads
        return await _await_decision(run, now, decision)
    finally:
        decision.cancel()


async def _await_decision(run: ActiveRun, call: ToolCallView, decision: asyncio.Future[ToolCallView]) -> ToolCallView:
    return decision.result() if await run.wait_for_person(decision) else await _expire(run, call)


async def _expire(run: ActiveRun, call: ToolCallView) -> ToolCallView:
    text = outcome_texts.expired()
    try:
        return await run.commit(lambda commit: transitions.settle(commit, call.tool_call_id, "expired", text))
    except IllegalTransition:
        return await run.read_call(call.tool_call_id)  # it was decided in the same moment


async def _run_approved(run: ActiveRun, call: ToolCallView) -> None:
    if is_for_page(run, call.tool_name):
        await _ask_page(run, call)
        return
    async with turn_of(run, call.tool_name) or nullcontext():
        if await _still_allowed(run, call):
            await run.commit(lambda commit: transitions.start(commit, call))
            await carry_out(run, call)


async def _still_allowed(run: ActiveRun, call: ToolCallView) -> bool:
    """Whether an approved call may start: a rule, or its path, may have changed while it waited."""
    judgement = await check_policy(run, call.tool_name, call.tool_input)
    moved = call.place not in (None, UNKNOWN) and judgement.place not in (call.place, UNKNOWN)
    asked = judgement.approval == "ask" and call.by in ("user", "script")
    if (judgement.approval == "allow" or asked) and not moved:
        return True
    reason = judgement.reason or (_MOVED if moved else "The rule that allowed this call is no longer in force.")
    denial = outcome_texts.denied("by policy", reason)
    source = "policy" if moved else judgement.source
    await run.commit(
        lambda commit: transitions.settle(
            commit, call.tool_call_id, "denied", denial, reason=reason, decision_source=source
        )
    )
    return False


async def _ask_page(run: ActiveRun, call: ToolCallView) -> None:
    """A call that a client answers, or the run's script."""
    if call.by == "script":
        answer = run.script.take_answer(call.tool_call_id)
        outcome = Outcome("error", NO_ANSWER) if answer is None else Outcome("success", answer)
        await run.commit(lambda commit: transitions.start(commit, call))
    elif not run.attended:
        outcome = Outcome("error", NOBODY)
        await run.commit(lambda commit: transitions.start(commit, call))
    else:
        answered = run.calls.answers.expect(call.tool_call_id)
        try:
            await run.commit(lambda commit: transitions.start(commit, call))
            run.note_time()
            outcome = await answered
        finally:
            answered.cancel()
            run.note_time()
        if outcome.status == "success":
            note_decision(run, call, ScriptedDecision(approved=True, answer=outcome.content))
    await finish(run, call, outcome, time.monotonic())
