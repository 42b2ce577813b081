"""The tool node: one call from `proposed` to its outcome. It never raises for what a call does; only cancellation
passes through."""

import asyncio
import logging
import time
from datetime import UTC, datetime, timedelta
from functools import partial

from agent_kernel.errors import AlreadyDecided, IllegalTransition, KernelGone
from agent_kernel.log import ledger
from agent_kernel.loop import calls, tool_messages
from agent_kernel.loop.batches import Batcher
from agent_kernel.loop.judging import judge, permits
from agent_kernel.loop.previews import with_file_diff
from agent_kernel.loop.run import ActiveRun, Commit
from agent_kernel.loop.starting import end_turn, is_for_page, turn_at_once
from agent_kernel.loop.waiting import said_to_wait
from agent_kernel.protocol.events import ToolOutputEvent
from agent_kernel.protocol.views import OutputView, ToolCallView
from agent_kernel.tools.hands import ApprovedCall, Outcome, OutputSink
from agent_kernel.tools.spill import shorten
from agent_kernel.tools.truncation import TextLimits

logger = logging.getLogger(__name__)
_FIRST_OUTPUT_SECONDS = 0.01
NOBODY = "Nobody was there to ask: this notebook ran without a page."


async def run_tool_call(run: ActiveRun, tool_call_id: str) -> None:
    """Decide on a call and run it. Returns when the ledger has its outcome, whoever brought it about."""
    run.open.tasks += 1
    try:
        call = run.step.proposed.pop(tool_call_id, None) or await _read(run, tool_call_id)
        decided = await _decided(run, call)
        if decided.state == "executing" and tool_call_id in run.open.started:
            await _run_started(run, decided)
        elif decided.state == "approved":
            await _run_approved(run, decided)
    except (IllegalTransition, AlreadyDecided) as race:
        # The call was cancelled or superseded between two of our steps; that outcome stands.
        logger.debug("%s", race)
    finally:
        run.open.tasks -= 1


async def _decided(run: ActiveRun, call: ToolCallView) -> ToolCallView:
    """The call once it is decided, by whomever: a person may be quicker than the tool's own judge."""
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
        return await _read(run, call.tool_call_id)


async def _read(run: ActiveRun, tool_call_id: str) -> ToolCallView:
    number = run.setting.conversation.number
    return await run.setting.log.read(lambda sql: ledger.read_call(sql, number, tool_call_id))


async def _decide(run: ActiveRun, call: ToolCallView) -> ToolCallView:
    judgement = await judge(run, call.tool_name, call.tool_input, edited=False)
    if judgement.approval != "deny":
        call = await with_file_diff(run, call)
    match judgement.approval:
        case "deny":
            return await decide_without_asking(run, call, ledger.Verdict(False, "policy", judgement.reason))
        case "allow":
            return await decide_without_asking(run, call, ledger.Verdict(True, "policy"))
        case "ask" if run.setting.attended:
            return await _ask(run, call)
        case "ask":
            return await decide_without_asking(run, call, _scripted_verdict(run, call.tool_name))


async def decide_without_asking(run: ActiveRun, call: ToolCallView, verdict: ledger.Verdict) -> ToolCallView:
    """Commit a decision, and the start of an approved call with it where its turn is free."""
    denial = tool_messages.denied(f"by {verdict.by}" if verdict.by != "user" else "by the user", verdict.reason)
    with turn_at_once(run, call, wanted=verdict.approved) as starts:
        return await run.commit(
            lambda commit: calls.decide_unasked(commit, call.approval_id, verdict, denial=denial, starts=starts)
        )


def _scripted_verdict(run: ActiveRun, tool_name: str) -> ledger.Verdict:
    """The next scripted decision that fits, used once; nobody acts unasked where there is none."""
    for index, decision in enumerate(run.scripted):
        if decision.tool_name in (None, tool_name):
            del run.scripted[index]
            return ledger.Verdict(decision.approved, "script", decision.reason)
    return ledger.Verdict(False, "policy", NOBODY)


async def _ask(run: ActiveRun, call: ToolCallView) -> ToolCallView:
    seconds = run.setting.settings.approval_seconds
    expires = None
    if seconds is not None:
        expires = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")
    decision = run.decisions.expect(call.approval_id)
    asked = await run.commit(lambda commit: calls.request_approval(commit, call, expires))
    return await _await_decision(run, asked, decision)


async def _await_earlier_request(run: ActiveRun, call: ToolCallView) -> ToolCallView:
    """Wait for the answer to a request that was shown before a restart."""
    decision = run.decisions.expect(call.approval_id)
    now = await _read(run, call.tool_call_id)
    if now.state != "awaiting_approval":
        return now  # it was answered between our first look and this one
    return await _await_decision(run, now, decision)


async def _await_decision(
    run: ActiveRun, call: ToolCallView, decision: asyncio.Future[ToolCallView | None]
) -> ToolCallView:
    """The call as it was decided, or as it is where the run was parked meanwhile."""
    settings = run.setting.settings
    run.open.asked[call.approval_id] = call
    try:
        if settings.approval_seconds is None:
            while not decision.done():
                await asyncio.wait({decision}, timeout=settings.park_seconds)
                if not decision.done():
                    run.park()
            return decision.result() or call
        async with asyncio.timeout(settings.approval_seconds):
            return await decision or call
    except TimeoutError:
        return await _expire(run, call)
    finally:
        del run.open.asked[call.approval_id]


async def _expire(run: ActiveRun, call: ToolCallView) -> ToolCallView:
    text = tool_messages.expired()
    try:
        return await run.commit(lambda commit: calls.settle(commit, call.tool_call_id, "expired", text))
    except IllegalTransition:
        return await _read(run, call.tool_call_id)  # it was decided in the same moment


async def _run_started(run: ActiveRun, call: ToolCallView) -> None:
    """A call that started with its decision."""
    try:
        if run.stopping is None:
            await _carry_out(run, call)
        else:  # Stop found the call started, and nothing of it to interrupt yet
            text = tool_messages.cancelled_before_start(run.stopping)
            await run.commit(
                lambda commit: calls.settle(commit, call.tool_call_id, "cancelled", text, reason=run.stopping)
            )
    finally:
        end_turn(run, call)


async def _run_approved(run: ActiveRun, call: ToolCallView) -> None:
    if is_for_page(run, call.tool_name):
        await _ask_page(run, call)
        return
    async with run.scheduler.slot(read_only=call.read_only):
        if await _still_allowed(run, call):
            await run.commit(lambda commit: calls.start(commit, call))
            await _carry_out(run, call)


async def _still_allowed(run: ActiveRun, call: ToolCallView) -> bool:
    judgement = await judge(run, call.tool_name, call.tool_input, edited=call.edited)
    if permits(judgement, call.by):
        return True
    reason = judgement.reason or "The rule that allowed this call is no longer in force."
    denial = tool_messages.denied("by policy", reason)
    await run.commit(lambda commit: calls.settle(commit, call.tool_call_id, "denied", denial, reason=reason))
    return False


async def _ask_page(run: ActiveRun, call: ToolCallView) -> None:
    """A call that a face answers."""
    if not run.setting.attended:
        outcome = Outcome("error", NOBODY)
        await run.commit(lambda commit: calls.start(commit, call))
    else:
        answer = run.answers.expect(call.tool_call_id)
        await run.commit(lambda commit: calls.start(commit, call))
        outcome = await answer
    await _finish(run, call, outcome, time.monotonic(), [])


async def _carry_out(run: ActiveRun, call: ToolCallView) -> None:
    """Run a call that the ledger has as executing."""
    run_id = run.view.run_id
    index = -1

    async def write(outputs: list[ToolOutputEvent]) -> None:
        await run.emit(*outputs)

    # What a quick call prints is committed with its outcome.
    batcher = Batcher(write, run.setting.settings.token_flush_seconds, first=_FIRST_OUTPUT_SECONDS)

    def emit(output: OutputView) -> None:
        nonlocal index
        index += 1
        batcher.add(ToolOutputEvent(run_id=run_id, tool_call_id=call.tool_call_id, index=index, output=output))

    started = time.monotonic()
    try:
        outcome = await _on_hands(run, call, emit)
    except BaseException:
        await batcher.aclose()
        raise
    await _finish(run, call, outcome, started, await batcher.drain())


async def _on_hands(run: ActiveRun, call: ToolCallView, emit: OutputSink) -> Outcome:
    hands = run.setting.hands
    if hands is None:
        return Outcome("error", "This conversation has no kernel to run the call in.")
    approved = ApprovedCall(call.tool_call_id, call.tool_name, call.tool_input, call.digest)
    execution = asyncio.create_task(hands.execute(approved, emit), name=f"call {call.tool_call_id}")
    run.executing[call.tool_call_id] = execution
    try:
        async with said_to_wait(run, call, hands):
            return await execution
    except KernelGone as gone:
        return Outcome("unknown", tool_messages.unknown(str(gone)))
    except asyncio.CancelledError:
        current = asyncio.current_task()
        if not execution.cancelled() or (current is not None and current.cancelling()):
            raise
        return Outcome("unknown", tool_messages.unknown("It did not end when it was interrupted."))
    except Exception:
        logger.exception("The hands failed on %s", call.tool_name)
        return Outcome("unknown", tool_messages.unknown("Something broke between Agent Kernel and the kernel."))
    finally:
        del run.executing[call.tool_call_id]


async def _finish(
    run: ActiveRun, call: ToolCallView, outcome: Outcome, started: float, last_outputs: list[ToolOutputEvent]
) -> None:
    settings = run.setting.settings
    limits = TextLimits(characters=settings.result_characters, lines=settings.result_lines)
    shortening = partial(shorten, call.tool_name, outcome.content, limits, settings.output_directory)
    # A text within the limits is kept as it is; a longer one is written to a file.
    kept = shortening() if len(outcome.content) <= limits.characters else await asyncio.to_thread(shortening)
    result = tool_messages.ended(call, outcome.status, kept.text)
    duration = round((time.monotonic() - started) * 1000)
    output_file = str(kept.output_file) if kept.output_file else None

    def work(commit: Commit) -> ToolCallView:
        for event in last_outputs:
            commit.emit(event)
        return calls.settle(
            commit,
            call.tool_call_id,
            outcome.status,
            result,
            duration_ms=duration,
            truncated=kept.truncated,
            output_file=output_file,
            undo=outcome.undo if outcome.status == "success" else None,
        )

    run.step.ended[call.tool_call_id] = await run.commit(work)
