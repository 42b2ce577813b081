"""The beginning and the end of a run."""

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from agent_kernel.approvals.folder_file import FILE_NAME, unreadable
from agent_kernel.approvals.limits import least
from agent_kernel.approvals.scripted import ScriptedDecision
from agent_kernel.errors import KernelGone, LogUnavailable
from agent_kernel.log import events, inbox, tool_calls
from agent_kernel.log.events import Mark
from agent_kernel.log.runs import ConversationRow, add_run, earlier_runs, save_limits, save_run
from agent_kernel.log.store import Log
from agent_kernel.models.prices import load, wants_loading
from agent_kernel.protocol.events import CompleteEvent, ErrorEvent, MessageEvent, RunEvent, utc_now
from agent_kernel.protocol.ids import new_message_id
from agent_kernel.protocol.views import ConversationBudget, ErrorView, NoticeView, RunView, Usage
from agent_kernel.protocol.vocabulary import FinishReason, RunStatus
from agent_kernel.runtime.graph import compiled, run_to_end
from agent_kernel.runtime.runs.resources import Resources
from agent_kernel.runtime.runs.specs import limits_text, stored
from agent_kernel.runtime.runs.stop import Stop, note
from agent_kernel.runtime.runs.suspend import keep_history
from agent_kernel.runtime.runs.time_limit import limited_in_time
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.runtime.state.commits import Commit
from agent_kernel.runtime.state.history import Past, unanswered_calls
from agent_kernel.runtime.state.leases import Leases
from agent_kernel.runtime.state.limits import conversation_budget, filled_up
from agent_kernel.runtime.state.prompts import RUN_AGAIN
from agent_kernel.runtime.state.run import ActiveRun, RunResult, RunSetting, Step
from agent_kernel.runtime.tool_calls import texts, transitions
from agent_kernel.runtime.tool_calls.effective_policy import (
    Standing,
    effective_policy,
    read_standing,
    take_in_user_rules,
)
from agent_kernel.runtime.turns.messages import answer_calls, leave_messages, read_result, write_tool_messages
from agent_kernel.runtime.turns.model_turn import add_user_message
from agent_kernel.runtime.turns.prompt_images import prompt_pictures
from agent_kernel.tools.executor import ToolExecutor

logger = logging.getLogger(__name__)
_ENVIRONMENT_SECONDS = 5.0
_FOLDER_SECONDS = 5.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 15.0
"""Seconds between two tries to write to a log that takes nothing."""

T = TypeVar("T")
Unwritten = Callable[[str], Awaitable[None]]
"""Called with the reason each time the end of a run can't be written."""


def queued_view(resources: Resources, row: ConversationRow, spec: RunSpec) -> RunView:
    _, policy = effective_policy(resources.settings, spec, Standing(spec.policy, []))
    return RunView(
        run_id=spec.run_id,
        conversation_id=row.conversation_id,
        prompt=spec.prompt,
        status="queued",
        model=spec.model or row.model or resources.settings.default_model or "",
        effort=spec.effort,
        continues=spec.continues,
        cell_id=spec.cell_id,
        recorded=False,
        policy=policy,
        usage=Usage(),
        budget=filled_up(spec.budget, resources.settings.default_budget),
        started_at=utc_now(),
    )


async def save_queued(log: Log, row: ConversationRow, spec: RunSpec, view: RunView, *, behind: bool) -> None:
    """Write a run that was asked for. It is shown as queued where it stands `behind` another; else it begins now."""

    def work(commit: Commit) -> None:
        add_run(commit.sql, commit.number, view, stored(spec))
        if behind:
            commit.emit(RunEvent(run_id=view.run_id, run=view))

    await log.write(lambda transaction: work(Commit(transaction, row)))


async def begin(
    resources: Resources,
    row: ConversationRow,
    spec: RunSpec,
    view: RunView,
    executor: ToolExecutor | None,
    scripted: Sequence[ScriptedDecision],
    leases: Leases,
) -> ActiveRun:
    """Resolve the model and the policy, read the history, show that the run has begun, and log the prompt.

    A run that an earlier process had begun (`view.status` is `running`) goes on where the log says it was.
    Raises `NoModelError`, `ConfigurationError`, `ToolDeclarationError`.
    """
    # Resolving may import the openai package, which takes half a second.
    model = await asyncio.to_thread(
        resources.models.resolve, spec.model or row.model or resources.settings.default_model
    )
    known, spec = spec.limits, await _with_folder_limits(resources, row, spec)
    await take_in_user_rules(resources.log, resources.settings)
    standing = await resources.log.read(lambda sql: read_standing(sql, row, spec.run_id))
    policy, shown = effective_policy(resources.settings, spec, standing)
    setting = RunSetting(
        row,
        resources.log,
        resources.settings,
        model,
        policy,
        executor,
        resources.attended,
        leases,
        resources.tasks.context,
        resources.active,
        scripted,
    )
    run = ActiveRun(spec, setting, view)
    if wants_loading(model):  # meanwhile the model is asked: the first price is needed when it has answered
        resources.tasks.spawn(asyncio.to_thread(load), "prices")
    # The first look at the schemas imports the validator, which takes most of a second.
    await asyncio.to_thread(run.registry.openai_format)
    started_at = view.started_at if view.status == "running" else utc_now()
    run.change(status="running", model=model.name, recorded=model.recorded, policy=shown, started_at=started_at)
    if spec.limits != known:
        run.change(budget=least(run.view.budget, spec.limits.budget))
        run.commits.write_soon(lambda commit: save_limits(commit.sql, spec.run_id, limits_text(spec)))
    run.past = resources.histories.take(row.number)
    if spec.replaces:
        run.past = Past()  # all is read again, without what is left out from now on
    await _read_log(run, continued=view.status == "running")
    if run.view != view:
        run.commits.write_soon(run.save)
    if not run.prompted:
        environment, pictures = await _environment(executor), await prompt_pictures(run, spec.prompt)
        if spec.replaces and await _has_acted(run, spec.replaces):
            environment = f"{environment}\n\n{RUN_AGAIN}".lstrip()
        await add_user_message(run, spec.prompt, environment, pictures)
    return run


async def _with_folder_limits(resources: Resources, row: ConversationRow, spec: RunSpec) -> RunSpec:
    """With what the files in the notebook's folder ask for now, and what they asked for when the run began."""
    read = resources.settings.read_limits
    if read is None:
        return spec
    try:
        async with asyncio.timeout(_FOLDER_SECONDS):
            found = await asyncio.to_thread(read, spec.notebook_path or row.notebook_path)
    except (TimeoutError, OSError) as error:
        logger.warning("The files of the notebook's folder could not be read: %s", error)
        found = unreadable(FILE_NAME, f"could not be looked for within {_FOLDER_SECONDS:g} s")
    return replace(spec, limits=spec.limits.and_(found))


async def _read_log(run: ActiveRun, *, continued: bool) -> None:
    """What the log knows of the conversation and, of a run that an earlier process had begun, how far it came."""
    number, run_id = run.setting.conversation.number, run.view.run_id

    def work(sql: sqlite3.Connection) -> None:
        run.open.unknown = tool_calls.unknown_digests(sql, number)
        if continued:
            run.step = Step(unanswered_calls(sql, number))
            run.prompted = events.has_prompt(sql, number, run_id)
            run.inbox = inbox.read_kept(sql, number, run_id)
        else:
            run.begun = events.mark(sql, number)
            run.change(conversation_budget=_conversation_budget(sql, run))
        run.recall(sql)

    await run.setting.log.read(work)


def _conversation_budget(sql: sqlite3.Connection, run: ActiveRun) -> ConversationBudget | None:
    limits = least(run.setting.settings.conversation_budget, run.spec.conversation_budget)
    return conversation_budget(limits, earlier_runs(sql, run.setting.conversation.number, run.view.run_id))


async def _environment(executor: ToolExecutor | None) -> str:
    if executor is None:
        return ""
    try:
        async with asyncio.timeout(_ENVIRONMENT_SECONDS):
            return await executor.describe_environment()
    except (TimeoutError, KernelGone) as error:
        logger.warning("The notebook could not be described to the model: %s", error)
        return ""


async def _has_acted(run: ActiveRun, run_ids: Collection[str]) -> bool:
    """Whether a call of these runs has started."""
    number = run.setting.conversation.number
    transitions = await run.setting.log.read(lambda sql: tool_calls.list_calls(sql, conversation=number))
    return any(call.run_id in run_ids and call.started_at is not None for call in transitions)


async def carry_out(resources: Resources, run: ActiveRun, unwritten: Unwritten) -> RunResult | None:
    """Run to the end, whatever the end is. `None` where the run was suspended."""
    broken: Exception | None = None
    try:
        await compiled()  # what is imported once is not the run's time
        async with limited_in_time(run):
            await run_to_end(run)
        await run.commits.settled()
    except Exception as error:
        logger.exception("The run %s broke", run.view.run_id)
        broken = error
    finally:
        await run.open.aclose()
    run.accepting = False
    if run.suspended and run.failure is None and broken is None:
        run.take_back_answers()
        await keep_history(resources, run)
        return None

    async def write_end() -> tuple[RunResult, Mark]:
        if broken is not None:
            await _break_off(run, broken)
        return await _end(run)

    result, end = await until_written(write_end, unwritten)
    await keep_history(resources, run, end)
    return result


async def until_written(write: Callable[[], Awaitable[T]], unwritten: Unwritten) -> T:
    """Try again while the log takes nothing: what has ended is not over before the log says so."""
    pause = _FIRST_PAUSE
    while True:
        try:
            return await write()
        except LogUnavailable as error:
            await unwritten(str(error))
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


async def _break_off(run: ActiveRun, error: Exception) -> None:
    """After a fault of our own, or of the log: say so, and leave nothing open."""
    broke = "Something broke in Agent Kernel, not in your code. The run is stopped; the log has the details."
    await run.fail("INTERNAL_ERROR", str(error) if isinstance(error, LogUnavailable) else broke)
    run.take_back_answers()  # one of them may tell of an outcome that did not reach the log
    await _settle_leftovers(run)


async def _settle_leftovers(run: ActiveRun) -> None:
    """No call stays open, and the model will hear of each."""

    def work(commit: Commit) -> None:
        for tool_call_id in events.unfinished_cards(commit.sql, commit.number, run.view.run_id):
            commit.emit(transitions.cut_off(run.view.run_id, tool_call_id))
        for call in tool_calls.list_calls(commit.sql, conversation=commit.number, run_id=run.view.run_id):
            if call.state == "executing":
                why = "Agent Kernel broke while it ran."
                transitions.settle(commit, call.tool_call_id, "unknown", texts.unknown(why), reason=why)
            elif call.state in tool_calls.UNFINISHED:
                text = texts.cancelled_before_start("Agent Kernel broke.")
                transitions.settle(commit, call.tool_call_id, "cancelled", text)

    await run.commit(work)
    await answer_calls(run)


async def _end(run: ActiveRun) -> tuple[RunResult, Mark]:
    status: RunStatus = "complete"
    finish: FinishReason = run.finish_reason
    if run.failure is not None:
        status, finish = "error", "error"
    elif run.stopping is not None:
        status, finish = "cancelled", "cancelled"
    usage = run.view.usage.model_copy(update={"seconds": run.meter.rounded})
    run.change(status=status, ended_at=utc_now(), error=run.failure, paused=None, usage=usage)

    def work(commit: Commit) -> tuple[RunResult, Mark, list[dict[str, Any]]]:
        write_tool_messages(commit, run)
        left = leave_messages(commit, run.view.run_id)
        commit.emit(_complete(run.view, run.last_message_id, finish))
        run.save(commit)
        result = read_result(commit.sql, commit.number, run.view, run.begun)
        return result, commit.mark(), left

    result, mark, left = await run.commit(work)
    run.unwritten.clear()
    for body in left:
        run.remember(body)
    return result, mark


async def end_unstarted(log: Log, row: ConversationRow, view: RunView, stop: Stop) -> RunResult:
    """End a run that never left the queue."""
    ended = view.model_copy(update={"status": "cancelled", "ended_at": utc_now()})
    if stop.notice:
        notice = NoticeView(content=stop.notice, at=utc_now(), steps=0)
        ended = ended.model_copy(update={"notices": [*ended.notices, notice]})
    return await _close(log, row, ended, "cancelled", stop)


async def end_failed_start(log: Log, row: ConversationRow, spec: RunSpec, view: RunView, message: str) -> RunResult:
    """End a run that could not begin: no model, a faulty tool. The prompt is logged, so that it is not lost."""
    error = ErrorView(code="LLM_ERROR", message=message)
    ended = view.model_copy(update={"status": "error", "ended_at": utc_now(), "error": error})
    message_id = new_message_id()

    def work(commit: Commit) -> None:
        body = {"role": "user", "content": spec.prompt}
        events.append_message(commit.sql, commit.number, message_id, view.run_id, body)
        commit.emit(MessageEvent(run_id=view.run_id, message_id=message_id, role="user", content=spec.prompt))
        commit.emit(ErrorEvent(run_id=view.run_id, code=error.code, message=error.message))

    await log.write(lambda transaction: work(Commit(transaction, row)))
    return await _close(log, row, ended, "error")


async def _close(
    log: Log, row: ConversationRow, view: RunView, finish: FinishReason, stop: Stop | None = None
) -> RunResult:
    def work(commit: Commit) -> RunResult:
        if stop is not None:
            note(commit, view, stop, (), whole_run=True)
        commit.emit(_complete(view, None, finish))
        save_run(commit.sql, view)
        commit.emit(RunEvent(run_id=view.run_id, run=view))
        return read_result(commit.sql, commit.number, view)

    return await log.write(lambda transaction: work(Commit(transaction, row)))


def _complete(view: RunView, message_id: str | None, finish: FinishReason) -> CompleteEvent:
    return CompleteEvent(
        run_id=view.run_id, message_id=message_id, finish_reason=finish, usage=view.usage, error=view.error
    )


async def note_kernel_death(run: ActiveRun, reason: str) -> None:
    """Tell clients that the kernel died, while the run goes on with the kernel that comes back."""
    await run.emit(ErrorEvent(run_id=run.view.run_id, code="KERNEL_DIED", message=reason))
