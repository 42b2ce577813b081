"""A call that the ledger has as executing, from the hands to its outcome."""

import asyncio
import logging
import time
from collections.abc import Sequence
from functools import partial

import orjson

from agent_kernel.errors import KernelGone
from agent_kernel.log import images
from agent_kernel.loop.commits import Commit
from agent_kernel.loop.run import ActiveRun, Execution
from agent_kernel.loop.tool_calls import calls, tool_messages
from agent_kernel.loop.tool_calls.call_outputs import CallOutputs
from agent_kernel.loop.tool_calls.shown_images import NO_PICTURES, prepare
from agent_kernel.loop.tool_calls.waiting import said_to_wait
from agent_kernel.protocol.events import ToolOutputEvent
from agent_kernel.protocol.views import ToolCallView
from agent_kernel.tools.hands import ApprovedCall, Outcome, OutputSink
from agent_kernel.tools.spill import shorten
from agent_kernel.tools.truncation import TextLimits

logger = logging.getLogger(__name__)


async def carry_out(run: ActiveRun, call: ToolCallView) -> None:
    """Run a call that the ledger has as executing."""
    outputs = CallOutputs(run, call)
    started = time.monotonic()
    try:
        outcome = await _on_hands(run, call, outputs.add)
    except BaseException:
        await outputs.aclose()
        raise
    await finish(run, call, outcome, started, await outputs.drain(), outputs.shown.take())
    outputs.settled()
    run.open.late.append(outputs)


async def _on_hands(run: ActiveRun, call: ToolCallView, emit: OutputSink) -> Outcome:
    hands = run.setting.hands
    if hands is None:
        return Outcome("error", "This conversation has no kernel to run the call in.")
    # A person approved what they saw; policy and scripts see no file.
    base = call.preview.base if call.preview is not None and call.by == "user" else ""
    approved = ApprovedCall(
        call.approval_id, call.tool_call_id, call.tool_name, call.tool_input, call.digest, base, call.place
    )
    execution = run.outside_graph(hands.execute(approved, emit), f"call {call.tool_call_id}")
    run.executing[call.tool_call_id] = Execution(call.approval_id, execution)
    try:
        async with said_to_wait(run, call, hands):
            return await execution
    except KernelGone as gone:
        return Outcome("unknown", str(gone))
    except asyncio.CancelledError:
        current = asyncio.current_task()
        if not execution.cancelled() or (current is not None and current.cancelling()):
            raise
        return Outcome("unknown", "It did not end when it was interrupted.")
    except Exception:
        logger.exception("The hands failed on %s", call.tool_name)
        return Outcome("unknown", "Something broke between Agent Kernel and the kernel.")
    finally:
        del run.executing[call.tool_call_id]


async def finish(
    run: ActiveRun,
    call: ToolCallView,
    outcome: Outcome,
    started: float,
    last_outputs: Sequence[ToolOutputEvent] = (),
    shown: Sequence[str] = (),
) -> None:
    """Commit how a call ended, with the pictures that it has `shown`."""
    settings = run.setting.settings
    limits = TextLimits(characters=settings.result_characters, lines=settings.result_lines)
    shortening = partial(
        shorten, call.tool_name, outcome.content, limits, settings.output_directory, outcome.output_file
    )
    # A text within the limits is kept as it is; a longer one is written to a file.
    kept = shortening() if len(outcome.content) <= limits.characters else await asyncio.to_thread(shortening)
    pictures = NO_PICTURES
    if shown and outcome.status != "unknown":
        pictures = await asyncio.to_thread(prepare, shown, sent=run.sends_images)
    text = f"{kept.text}\n{pictures.note}" if pictures.note else kept.text
    result = tool_messages.ended(call, outcome.status, text)
    duration = round((time.monotonic() - started) * 1000)
    output_file = str(kept.output_file) if kept.output_file else None

    def work(commit: Commit) -> None:
        for event in last_outputs:
            commit.emit(event)
        images.keep(commit.sql, commit.number, pictures.data)
        calls.settle(
            commit,
            call.tool_call_id,
            outcome.status,
            result,
            reason=outcome.content if outcome.status == "unknown" else None,
            duration_ms=duration,
            truncated=kept.truncated,
            output_file=output_file,
            undo=outcome.undo if outcome.status == "success" else None,
            **({"images": orjson.dumps(pictures.refs).decode()} if pictures.refs else {}),
        )

    run.commits.write_soon(work)
    if outcome.status == "unknown":
        run.open.unknown.add(call.digest)  # what a person says about it will be read with it
    else:
        run.step.results[call.tool_call_id] = result
        if pictures.refs:
            run.step.images[call.tool_call_id] = pictures.refs
            run.pictures.add(pictures.data)
