"""The beginning and the end of a run."""

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from itertools import islice
from types import ModuleType
from typing import Any, TypeVar

from agent_kernel.approvals.folder_file import FILE_NAME, unreadable
from agent_kernel.approvals.limits import least
from agent_kernel.errors import KernelGone, LogUnavailable
from agent_kernel.instructions import MOST_CHARACTERS
from agent_kernel.log import client_calls, event_rows, tool_calls
from agent_kernel.log.event_rows import START, Position
from agent_kernel.log.measures import add_run as measure_run
from agent_kernel.log.runs import ConversationRow, add_run, earlier_runs, set_in_spec
from agent_kernel.log.store import Log
from agent_kernel.models.base import IMAGES, ClientModel, LearnsFacts, Model, RequestedCall, facts_of
from agent_kernel.models.redaction import Secrets
from agent_kernel.own_thread import in_own_thread
from agent_kernel.protocol.events import CompleteEvent, ErrorEvent, RunEvent, utc_now
from agent_kernel.protocol.kernel import CELLS_OPEN, EnvironmentDescribed
from agent_kernel.protocol.run_results import RunResult
from agent_kernel.protocol.views import ErrorView, InstructionView, NoticeView, RunView, Usage
from agent_kernel.protocol.vocabulary import FinishReason, RunStatus
from agent_kernel.runtime.runs.server_offer import offer_servers
from agent_kernel.runtime.runs.specs import limits_text, script_text, stored
from agent_kernel.runtime.runs.stop import Stop, limited_in_time, note
from agent_kernel.runtime.settings import RunSpec, RuntimeSettings
from agent_kernel.runtime.state.active_run import ActiveRun, ConversationResources, Resources, StartingPoint
from agent_kernel.runtime.state.commits import Commit, commit_to
from agent_kernel.runtime.state.compaction import BYTES_PER_TOKEN
from agent_kernel.runtime.state.spending import conversation_budget, filled_up
from agent_kernel.runtime.state.transcript import Transcript, wants_lean
from agent_kernel.runtime.tool_calls import decisions, transitions
from agent_kernel.runtime.tool_calls.effective_policy import (
    StoredPolicy,
    effective_policy,
    read_stored_policy,
    take_in_user_rules,
)
from agent_kernel.runtime.tool_calls.script_decisions import with_recorded
from agent_kernel.runtime.turns.model_turn import add_user_message
from agent_kernel.runtime.turns.prompts import prompt_mentions, prompt_pictures
from agent_kernel.runtime.turns.tool_messages import (
    move_unread_messages,
    read_result,
    write_open_answers,
)
from agent_kernel.tools.executor import ToolExecutor
from agent_kernel.tools.registry import ToolRegistry
from agent_kernel.tools.truncation import TextLimits, truncate

logger = logging.getLogger(__name__)
BROKEN = (
    "The run was stopped by an unexpected error; what its calls have done stays. The traceback is in the output of the "
    "Jupyter server, or of the kernel where no server runs the agent. Ask again."
)
RUN_AGAIN = (
    "The user has run this cell again, so what was said in its earlier run is left out of this conversation. What the "
    "calls of that run did to variables and files remains."
)
NO_KERNEL = "The notebook's kernel is no longer there, so the model has no tools."
_ENVIRONMENT_SECONDS = 5.0
_FOLDER_SECONDS = 5.0
_LOOKED_AT = 20
_CONTEXT_PART = 8
"""Instructions take this part of the model's context at most."""
_LEAN_CHARACTERS = 4_000
"""Of what the model is told of the notebook where its context is small."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 15.0
"""Seconds between two tries to write to a log that takes nothing."""

T = TypeVar("T")
Unwritten = Callable[[str], Awaitable[None]]
"""Called with the reason whenever the end of a run can't be written."""


def queued_view(resources: Resources, row: ConversationRow, spec: RunSpec) -> RunView:
    _, policy = effective_policy(resources.settings, spec, StoredPolicy(spec.policy, []))
    return RunView(
        run_id=spec.run_id,
        conversation_id=row.conversation_id,
        prompt=spec.prompt,
        status="queued",
        model=spec.model or row.client or row.model or resources.settings.default_model or "",
        effort=spec.effort,
        continues=spec.continues,
        cell_id=spec.cell_id,
        recorded=False,
        client=spec.client_call.client if spec.client_call is not None else None,
        policy=policy,
        usage=Usage(),
        budget=filled_up(spec.budget, resources.settings.default_budget),
        started_at=utc_now(),
    )


async def save_queued(log: Log, row: ConversationRow, spec: RunSpec, view: RunView, *, behind: bool) -> None:
    """Write a new run. It is shown as queued where it is `behind` another; else it begins at once."""

    def work(commit: Commit) -> None:
        add_run(commit.sql, commit.number, view, stored(spec))
        if (asked := spec.client_call) is not None:
            client_calls.add(commit.sql, spec.run_id, asked.home, asked.tool_name, asked.digest)
        if behind:
            commit.emit(RunEvent(run_id=view.run_id, run=view))

    await commit_to(log, row, work)


async def begin(
    shared: ConversationResources, spec: RunSpec, view: RunView, executor: ToolExecutor | None
) -> ActiveRun:
    """Begin a new run: resolve the model and the policy, read the history, show that the run has begun, and log the
    prompt, with what the notebook looks like now. Raises as `prepare`."""
    described = executor if spec.client_call is None else None  # a client is told what it asks for
    describing = asyncio.create_task(environment_of(described), name=f"environment of {spec.run_id}")
    try:
        run = await _begun(shared, spec, view, executor)
        await log_prompt(run, await describing)
    finally:
        describing.cancel()
    return run


async def _begun(
    shared: ConversationResources, spec: RunSpec, view: RunView, executor: ToolExecutor | None
) -> ActiveRun:
    resources, row, known, by_hand = shared.runtime, shared.row, spec.limits, spec.script
    model, spec = await prepare(shared, spec)
    if resources.attended:  # else the host has chosen the run's script
        spec = with_recorded(spec, model)
    budget = least(resources.settings.conversation_budget, spec.conversation_budget)
    stored_policy, position, unknown, whole, earlier = await resources.log.read(
        lambda sql: (
            read_stored_policy(sql, row, spec.run_id),
            event_rows.current_position(sql, row.number),
            tool_calls.unknown_digests(sql, row.number),
            conversation_budget(budget, earlier_runs(sql, row.number, spec.run_id)),
            _last_instructed(sql, row, spec),
        )
    )
    policy, shown = effective_policy(resources.settings, spec, stored_policy)
    spec, instructions, notes = taken_in(spec, model, earlier)
    transcript = resources.transcripts.take(row.number)
    if spec.replaces:
        transcript = Transcript()  # all is read again, without what is left out from now on
    start = StartingPoint(position, transcript, unknown=unknown)
    view = view.model_copy(update={"lean": wants_lean(spec, model)})
    run = ActiveRun(shared, spec, model, executor, view, policy, start)

    def write(commit: Commit, view: RunView) -> None:
        run.recall(commit.sql)
        if spec.limits != known:
            set_in_spec(commit.sql, spec.run_id, "limits", limits_text(spec))
        if spec.script != by_hand:  # another process, which goes on with it, can't tell which run of the prompt it is
            set_in_spec(commit.sql, spec.run_id, "script", script_text(spec))
        commit.save_run(view)

    await run.commit_view(
        write,
        status="running",
        model=model.name,
        recorded=model.recorded,
        policy=shown,
        started_at=utc_now(),
        budget=least(view.budget, spec.limits.budget),
        conversation_budget=whole,
        instructions=instructions,
    )
    for said in notes:
        run.notify(said)
    if executor is None and row.kernel_id is not None:
        run.notify(NO_KERNEL)
    return run


async def prepare(shared: ConversationResources, spec: RunSpec) -> tuple[Model, RunSpec]:
    """Resolve the model, and read the limits in the notebook's folder and the rules for all notebooks as they are now.
    The limits only ever become tighter. Raises `NoModelError`, `ConfigurationError`, `ToolDeclarationError`."""
    resources, row = shared.runtime, shared.row
    name = spec.model or row.model or resources.settings.default_model
    model = await in_own_thread(lambda: _prepare_apart(resources, name, spec, spec.notebook_path or row.notebook_path))
    if isinstance(model, LearnsFacts):
        await model.learn()

    spec = _with_recorded_servers(spec, model)
    spec = await _with_folder(resources, row, spec)
    await take_in_user_rules(resources.log, resources.settings)
    return model, spec


def _prepare_apart(resources: Resources, name: str | None, spec: RunSpec, notebook_path: str | None) -> Model:
    """What may import much: the first look at schemas the validator, for most of a second."""
    if (asked := spec.client_call) is not None:
        model: Model = ClientModel(asked.client, spec.prompt, RequestedCall("", asked.tool_name, asked.arguments))
    else:
        model = resources.models.resolve(name, notebook_path)
    ToolRegistry(spec.tools).openai_format()
    return model


def _with_recorded_servers(spec: RunSpec, model: Model) -> RunSpec:
    """The specification with the tools of MCP servers that a recording has, in place of those that servers have now."""
    servers = getattr(model, "server_tools", None)
    if servers is None:
        return spec
    own = tuple(tool for tool in spec.tools if tool.origin is None)
    return replace(spec, tools=(*own, *servers.declarations([tool.name for tool in own])))


def _last_instructed(sql: sqlite3.Connection, row: ConversationRow, spec: RunSpec) -> RunView | None:
    """The last run before this one that had instructions."""
    return next(
        (run for run in islice(earlier_runs(sql, row.number, spec.run_id), _LOOKED_AT) if run.instructions), None
    )


def taken_in(spec: RunSpec, model: Model, before: RunView | None) -> tuple[RunSpec, list[InstructionView], list[str]]:
    """The specification with the instructions that the model is told, all of them for display, and what is to be said
    of them for the first time. `before`: the run before, where a person may have switched some off."""
    known = {one.file: one for one in before.instructions} if before is not None else {}
    off = {file for file, one in known.items() if one.off}
    shown = spec.instructions.views(off)
    context = facts_of(model).context_tokens
    room = MOST_CHARACTERS if context is None else min(MOST_CHARACTERS, int(context * BYTES_PER_TOKEN / _CONTEXT_PART))
    told = spec.instructions.without(off).within(room)
    said = {notice.content for notice in before.notices} if before is not None else set()
    notes = [note for note in told.notes if note not in said]
    for one in shown:
        if not one.off and one.file in known and known[one.file].digest != one.digest:
            notes.append(f"{one.file} has changed: the model is told what it says now.")
    return replace(spec, instructions=told), shown, notes


async def log_prompt(run: ActiveRun, described: EnvironmentDescribed) -> None:
    """Commit the prompt of a run, with what the notebook looks like."""
    if run.spec.client_call is not None:  # whose prompt has a name that anybody may give themselves
        await add_user_message(run, run.spec.prompt)
        return
    pictures = await prompt_pictures(run, run.spec.prompt, run.spec.prompt_images)
    mentions = await prompt_mentions(run, run.spec.prompt)
    told = fitted(described, run.secrets, lean=run.view.lean)
    run.seen_cells.tell(told.cells)
    environment = told.text
    if run.spec.replaces and await _has_acted(run, run.spec.replaces):
        environment = f"{environment}\n\n{RUN_AGAIN}".lstrip()
    environment = f"{environment}\n\n{mentions}".strip()
    await add_user_message(run, run.spec.prompt, environment, pictures, message_id=run.spec.prompt_id)


def fitted(described: EnvironmentDescribed, secrets: Secrets, *, lean: bool) -> EnvironmentDescribed:
    """Without the host's keys, and short for a small context. Then no cell's source counts as told whole."""
    text = secrets.clean(described.text)
    if lean:
        head, cells_open, cells = text.partition(CELLS_OPEN)
        text = head + cells_open + truncate(cells, TextLimits(max(500, _LEAN_CHARACTERS - len(head)))).text
    return described if text == described.text else EnvironmentDescribed(text=text)


async def _with_folder(resources: Resources, row: ConversationRow, spec: RunSpec) -> RunSpec:
    """The specification with what the files of the user and of the notebook's folder say now."""
    settings, path = resources.settings, spec.notebook_path or row.notebook_path
    spec = await with_limits(settings, row, spec)
    if (read_instructions := settings.read_instructions) is not None and spec.client_call is None:
        spec = replace(spec, instructions=await _read_folder(lambda: read_instructions(path)) or spec.instructions)
    return spec


async def with_limits(settings: RuntimeSettings, row: ConversationRow, spec: RunSpec) -> RunSpec:
    """The specification with the limits of the notebook's folder now, added to those when the run began."""
    if (read_limits := settings.read_limits) is None:
        return spec
    path = spec.notebook_path or row.notebook_path
    limits = await _read_folder(lambda: read_limits(path))
    if limits is None:
        limits = unreadable(FILE_NAME, f"could not be looked for within {_FOLDER_SECONDS:g} s")
    return replace(spec, limits=spec.limits.and_(limits))


async def _read_folder(read: Callable[[], T]) -> T | None:
    try:
        async with asyncio.timeout(_FOLDER_SECONDS):
            return await in_own_thread(read)
    except (TimeoutError, OSError) as error:
        logger.warning("The files of the notebook's folder could not be read: %s", error)
        return None


async def environment_of(executor: ToolExecutor | None) -> EnvironmentDescribed:
    """What the model is told of the notebook. Empty if it is not known in time."""
    if executor is None:
        return EnvironmentDescribed()
    try:
        async with asyncio.timeout(_ENVIRONMENT_SECONDS):
            return await executor.describe_environment()
    except (TimeoutError, KernelGone) as error:
        logger.warning("The notebook could not be described to the model: %s", error)
        return EnvironmentDescribed()


async def _has_acted(run: ActiveRun, run_ids: Collection[str]) -> bool:
    """Whether a call of these runs has started."""
    calls = await run.log.read(lambda sql: [call for one in run_ids for call in tool_calls.list_calls(sql, run_id=one)])
    return any(call.started_at is not None for call in calls)


def _import_graph() -> ModuleType:
    from agent_kernel.runtime import graph

    return graph


async def carry_out(resources: Resources, run: ActiveRun, unwritten: Unwritten) -> RunResult:
    """Run to the end, of whatever kind."""
    with run.spans.run(run.view, run.model) as ended:
        result = await _to_end(resources, run, unwritten)
        ended(result.run)
    return result


async def _to_end(resources: Resources, run: ActiveRun, unwritten: Unwritten) -> RunResult:
    broken: Exception | None = None
    try:
        await decisions.rules_changed([run])  # a rule may have changed since the policy was read
        if run.prompted:
            await decisions.check_waiting_calls(run)
        else:
            await offer_servers(run)
        graph = await asyncio.to_thread(_import_graph)  # which does not count as the run's time
        async with limited_in_time(run):
            await graph.run_to_end(run)
    except Exception as error:
        logger.exception("The run %s broke", run.run_id)
        broken = error
    run.inbox_is_open = False

    async def write_end() -> tuple[RunResult, Position]:
        if broken is not None:
            await _end_broken(run, broken)
        return await _end(run)

    result, end = await until_written(write_end, unwritten)
    if broken is None and not run.prompt_is_refused:  # else it is read from the log again, without the prompt
        run.transcript.ends_at(end)
        resources.transcripts.keep(run.conversation.number, run.transcript)
    return result


async def until_written(write: Callable[[], Awaitable[T]], unwritten: Unwritten) -> T:
    """Try again while the log takes nothing: a run has not ended before the log has its end."""
    pause = _FIRST_PAUSE
    while True:
        try:
            return await write()
        except LogUnavailable as error:
            await unwritten(str(error))
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


async def _end_broken(run: ActiveRun, error: Exception) -> None:
    """End a run after an internal error, or one of the log, and leave no call open."""
    await run.fail("INTERNAL_ERROR", str(error) if isinstance(error, LogUnavailable) else BROKEN)

    def work(commit: Commit) -> None:
        transitions.end_unfinished_cards(commit, run.run_id)
        transitions.settle_all(commit, run.run_id, "Agent Kernel broke while it ran.", "Agent Kernel broke.")
        write_open_answers(commit, run.run_id, run.settings.step_characters)

    await run.commit(work)


async def _end(run: ActiveRun) -> tuple[RunResult, Position]:
    status: RunStatus = "complete"
    finish: FinishReason = run.finish_reason
    if run.failure is not None:
        status, finish = "error", "error"
    elif run.stopping is not None:
        status, finish = "cancelled", "cancelled"
    usage = run.view.usage.model_copy(update={"seconds": run.meter.rounded})

    def work(commit: Commit, ended: RunView) -> tuple[RunResult, Position, list[dict[str, Any]]]:
        left = move_unread_messages(commit, run.run_id)
        first_token = run.meter.first_token_seconds
        result = write_end(commit, ended, run.last_message_id, run.begun, first_token_seconds=first_token)
        return result, commit.position(), left

    result, position, left = await run.commit_view(
        work,
        status=status,
        finish_reason=finish,
        ended_at=utc_now(),
        error=run.failure,
        paused=None,
        delay=None,
        usage=usage,
    )
    for body in left:
        run.transcript.add(body)
    return result, position


async def end_unstarted(log: Log, row: ConversationRow, view: RunView, stop: Stop) -> RunResult:
    """End a run that is still queued."""
    ended = view.model_copy(update={"status": "cancelled", "finish_reason": "cancelled", "ended_at": utc_now()})
    if stop.notice:
        notice = NoticeView(content=stop.notice, at=utc_now(), steps=0)
        ended = ended.model_copy(update={"notices": [*ended.notices, notice]})

    def work(commit: Commit) -> RunResult:
        note(commit, ended, stop, (), whole_run=True)
        return write_end(commit, ended)

    return await commit_to(log, row, work)


async def end_failed_start(log: Log, row: ConversationRow, spec: RunSpec, view: RunView, error: ErrorView) -> RunResult:
    """End a run that could not begin: no model, a faulty tool. Its prompt is logged."""
    ended = failed(view, error)
    body: dict[str, Any] = {"role": "user", "content": spec.prompt}
    if spec.prompt_images:
        body[IMAGES] = spec.prompt_images

    def work(commit: Commit) -> RunResult:
        commit.add_user_message(view.run_id, body, spec.prompt_id)
        commit.emit(ErrorEvent(run_id=view.run_id, code=error.code, message=error.message))
        return write_end(commit, ended)

    return await commit_to(log, row, work)


def failed(view: RunView, error: ErrorView) -> RunView:
    """A run as it ends in an error."""
    ended = {"status": "error", "finish_reason": "error", "ended_at": utc_now(), "error": error}
    return view.model_copy(update=ended | {"paused": None, "delay": None})


def write_end(
    commit: Commit,
    ended: RunView,
    message_id: str | None = None,
    begun: Position = START,
    *,
    first_token_seconds: float | None = None,
) -> RunResult:
    """Write a run's end, and show it. `begun` is a place in the log before its beginning."""
    assert ended.finish_reason is not None
    commit.emit(
        CompleteEvent(
            run_id=ended.run_id,
            message_id=message_id,
            finish_reason=ended.finish_reason,
            usage=ended.usage,
            error=ended.error,
        )
    )
    commit.save_run(ended)
    commit.measured.append(measure_run(commit.sql, ended, first_token_seconds))
    return read_result(commit.sql, commit.number, ended, begun)
