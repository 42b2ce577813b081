"""Executes a call: from the commit of `executing` to the commit of its outcome. Meanwhile it is watched: it is shown
behind which cell it waits, its time is limited, and it can be interrupted.

A call of a tool with a cache is given the stored outcome of an earlier call with the same arguments, if policy allowed
it without asking anybody and the kernel says that nothing has run since that may change the outcome. It happens while
the call has its turn at the kernel, where it would run otherwise."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial
from math import inf

import orjson

from agent_kernel.errors import KernelGone
from agent_kernel.log import stored_images, tool_calls
from agent_kernel.log.runs import save_tools
from agent_kernel.protocol.calls import ApprovedCall, Outcome, Walls
from agent_kernel.protocol.events import utc_now
from agent_kernel.protocol.tools import ToolDeclaration
from agent_kernel.protocol.views import ToolCallView
from agent_kernel.runtime.state.active_run import ActiveRun
from agent_kernel.runtime.state.commits import Commit
from agent_kernel.runtime.state.outcome_cache import StoredOutcome
from agent_kernel.runtime.state.run_calls import Execution, Interruption
from agent_kernel.runtime.tool_calls import transitions
from agent_kernel.runtime.tool_calls.call_outputs import CallLines, CallOutputs, is_unasked, secrets_in
from agent_kernel.runtime.tool_calls.effective_policy import wall_level
from agent_kernel.runtime.tool_calls.policy_check import changes_cells, has_walls
from agent_kernel.runtime.tool_calls.server_cards import WITHDRAWN, ask_person, end_question
from agent_kernel.runtime.tool_calls.shown_images import NO_PICTURES, prepare
from agent_kernel.runtime.tool_calls.transitions import show_queue_position
from agent_kernel.tools import outcome_texts
from agent_kernel.tools.arguments import parse
from agent_kernel.tools.executor import CallExecutor, OutputSink
from agent_kernel.tools.server_tools import DEFINITION, chosen, definition_digest, find, unfit, with_cache
from agent_kernel.tools.truncation import Shortened, TextLimits, shorten

NO_SERVERS = "The server of this tool is not configured here. Nothing ran."
REDEFINED = "The server defines this tool otherwise now than when the call was approved. Nothing ran."
TOLD_TO_STOP = "The server was told to stop; what it had done by then is not known."


def is_of_servers(run: ActiveRun, tool_name: str) -> bool:
    """Whether a call of this tool is nothing to the kernel: it is a server's, or the search for those."""
    return run.registry.declaration(tool_name).origin is not None or run.registry.searches(tool_name)


async def add_late_tools(run: ActiveRun) -> None:
    """Give the next request also the tools of servers that have come up since the last one. Those that the run has are
    kept as they were. Says once which patterns of `--tools` fit none."""
    spec, servers = run.spec, run.settings.server_tools
    if servers is None or run.server_tools is not servers or spec.server_tools == () or spec.client_call is not None:
        return
    found = await servers.offered(spec.notebook_path or run.conversation.notebook_path, wait=False)
    if late := chosen(found, spec.server_tools, {tool.name for tool in spec.tools}):
        run.add_tools(with_cache(late, spec.server_cache))
        tools = run.spec.tools
        await run.commit(lambda commit: save_tools(commit.sql, run.run_id, tools))
    patterns = (*(spec.server_tools or ()), *spec.server_cache)
    if run.view.usage.steps == 0 and (said := unfit([*run.spec.tools, *found], patterns)):
        run.notify(said)


class ServerCalls:
    """The executor of one such call."""

    def __init__(self, run: ActiveRun, call: ToolCallView) -> None:
        self._run = run
        self._call = call
        self._task: asyncio.Task[Outcome] | None = None

    async def execute(self, call: ApprovedCall, emit: OutputSink) -> Outcome:
        run = self._run
        tool, servers = run.registry.declaration(call.tool_name), run.server_tools
        if tool.origin is None:  # the search, unless a recording has its results
            return Outcome("success", find(run.registry, str(parse(call.arguments_json).get("query", ""))))
        if servers is None:
            return Outcome("error", NO_SERVERS)
        if call.base != f"{DEFINITION}{definition_digest(tool)}":
            return Outcome("error", REDEFINED)
        path = run.spec.notebook_path or run.conversation.notebook_path
        work = servers.call(call, tool, path, emit, partial(ask_person, run, self._call))
        self._task = asyncio.create_task(work, name=f"server's part of {call.tool_call_id}")
        try:
            return await self._task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
            return Outcome("cancelled", TOLD_TO_STOP)

    async def interrupt(self, approval_id: str) -> bool:  # noqa: ARG002 -- it has one call
        return self._task is not None and self._task.cancel()

    async def waiting_behind(self, approval_id: str) -> int | None:  # noqa: ARG002 -- it waits for nothing
        return None


logger = logging.getLogger(__name__)


def is_for_page(run: ActiveRun, tool_name: str) -> bool:
    return run.registry.declaration(tool_name).runs_in == "page"


def turn_of(run: ActiveRun, tool_name: str) -> asyncio.Semaphore | None:
    """What a call of this tool has to hold while it runs; `None` where it is nothing to the kernel."""
    return None if is_of_servers(run, tool_name) else run.calls.turn


async def carry_out(run: ActiveRun, call: ToolCallView) -> None:
    """Run a call whose state in the log is `executing`, or end it with a stored outcome."""
    version = await _cached_version(run, call)
    if (why := run.halted) is not None:  # the run was stopped before there was anything to interrupt
        text = outcome_texts.cancelled_before_start(why)
        await run.commit(lambda commit: transitions.settle(commit, call.tool_call_id, "cancelled", text, reason=why))
        return
    if version is not None and await _end_by_stored(run, call, version):
        return
    outputs = CallOutputs(run, call)
    lines = CallLines(run, call, outputs)
    started = time.monotonic()
    try:
        unseen = run.unseen_changes.noted() if _changes_unseen(run, call) else nullcontext()
        with unseen, run.spans.call(call) as ended:
            outcome, interruption = await _on_executor(run, call, lines.emit)
            ended(outcome)
    except BaseException:
        await outputs.aclose()
        raise
    finally:
        await lines.aclose()
    clean = secrets_in(run, unasked=is_unasked(call)).clean(outcome.content)
    outcome = replace(outcome, content=clean)
    await finish(run, call, outcome, started, outputs, interruption, version)


async def _cached_version(run: ActiveRun, call: ToolCallView) -> str | None:
    """The version of what calls read, for a call that may have a stored outcome and whose own is kept."""
    if not _has_cache(run, call) or call.by != "policy" or run.executor is None:
        return None
    unseen = run.unseen_changes.count
    try:
        version = await run.executor.state_version()
    except KernelGone:
        return None
    return None if version is None else f"{version} {unseen}"


def _has_cache(run: ActiveRun, call: ToolCallView) -> bool:
    """Of a server's tool a person alone says that it changes nothing, by naming it for the cache."""
    tool = run.registry.declaration(call.tool_name)
    return tool.cache_seconds is not None and (tool.read_only or tool.origin is not None)


def _changes_unseen(run: ActiveRun, call: ToolCallView) -> bool:
    if call.read_only or _has_cache(run, call):
        return False
    return is_of_servers(run, call.tool_name) or changes_cells(run, call.tool_name)


async def _is_defined_so(run: ActiveRun, tool: ToolDeclaration) -> bool:
    """Whether a tool is defined as this run has it: a server's may have changed meanwhile."""
    servers = run.server_tools
    if tool.origin is None or servers is None:
        return tool.origin is None
    now = await servers.offered(run.spec.notebook_path or run.conversation.notebook_path, wait=False)
    return definition_digest(tool) in [definition_digest(one) for one in now if one.name == tool.name]


async def _end_by_stored(run: ActiveRun, call: ToolCallView, version: str) -> bool:
    """End an executing call with a stored outcome, if there is one."""
    tool = run.registry.declaration(call.tool_name)
    found = run.outcomes.find((call.tool_name, call.digest), version, tool.cache_seconds or 0.0)
    if found is None or found[0].definition != definition_digest(tool) or not await _is_defined_so(run, tool):
        return False
    stored, age = found
    result = outcome_texts.stored(age, stored.result)

    def work(commit: Commit) -> None:
        transitions.settle(
            commit,
            call.tool_call_id,
            "success",
            result,
            truncated=stored.truncated,
            output_file=stored.output_file,
            cached_at=utc_now(-age),
        )

    await run.commit(work)
    return True


def _walls(run: ActiveRun) -> Walls:
    settings = run.settings
    return Walls(wall_level(settings.shell_walls, run.spec.limits), settings.hidden_paths, settings.shell_environment)


async def _on_executor(run: ActiveRun, call: ToolCallView, emit: OutputSink) -> tuple[Outcome, Interruption | None]:
    """The outcome of the call, and why it was interrupted by us where it was."""
    of_servers = is_of_servers(run, call.tool_name)
    executor: CallExecutor | None = ServerCalls(run, call) if of_servers else run.executor
    if executor is None:
        return Outcome("error", "This conversation has no kernel to run the call in."), None
    is_command = has_walls(run, call.tool_name)
    # A person approved the file that the card showed; policy and scripts see none. Walls, the source of a cell that the
    # model has seen, and how a server defines its tool, are part of every approval.
    is_bound = call.by == "user" or is_command or of_servers or changes_cells(run, call.tool_name)
    base = call.preview.base if call.preview is not None and is_bound else ""
    approved = ApprovedCall(
        call.approval_id,
        call.tool_call_id,
        call.tool_name,
        call.tool_input,
        call.digest,
        base,
        call.place,
        _walls(run) if is_command else None,
        may_ask=run.attended and call.by != "script",
    )
    execution = run.outside_graph(executor.execute(approved, emit), f"call {call.tool_call_id}")
    running = Execution(call.approval_id, execution, executor)
    try:
        with run.calls.executing(call.tool_call_id, running):
            async with watched(run, call, executor, running):
                outcome = await execution
                return outcome, None if outcome.status == "success" else running.interruption
    except KernelGone as gone:
        return Outcome("unknown", str(gone)), None
    except asyncio.CancelledError:
        current = asyncio.current_task()
        if not execution.cancelled() or (current is not None and current.cancelling()):
            raise
        return Outcome("unknown", "It did not end when it was interrupted."), running.interruption
    except Exception:
        logger.exception("The executor failed on %s", call.tool_name)
        whose = "the server of the tool" if of_servers else "the kernel"
        return Outcome("unknown", f"Something broke between Agent Kernel and {whose}."), None


async def finish(
    run: ActiveRun,
    call: ToolCallView,
    outcome: Outcome,
    started: float,
    outputs: CallOutputs | None = None,
    interruption: Interruption | None = None,
    version: str | None = None,
) -> None:
    """Commit the outcome of a call, with its last `outputs` and the pictures that it has shown; and `interruption` if
    there was one. It is kept for later calls in the same `version` of the kernel's state, if there is one."""
    reason = None
    if interruption is not None:
        outcome, reason = _cut_short(outcome, interruption), interruption.reason
    if outcome.status == "unknown":
        reason = outcome.content
    kept = await _shortened(run, call, outcome)
    shown = outputs.shown.take() if outputs is not None else []
    pictures = NO_PICTURES
    if shown and outcome.status != "unknown":
        pictures = await asyncio.to_thread(prepare, shown, sent=run.sends_images)
    text = f"{kept.text}\n{pictures.note}" if pictures.note else kept.text
    result = outcome_texts.ended(call, outcome.status, text, cut=interruption is not None)
    duration = round((time.monotonic() - started) * 1000)
    output_file = str(kept.output_file) if kept.output_file else None
    last_outputs = await outputs.drain() if outputs is not None else []
    asked = run.calls.questions.pop(call.tool_call_id, None)

    def work(commit: Commit) -> None:
        for event in last_outputs:
            commit.emit(event)
        for question in asked or ():  # whose end could not be written
            end_question(commit, question, Outcome("cancelled", WITHDRAWN))
        stored_images.keep(commit.sql, commit.number, pictures.data)
        transitions.settle(
            commit,
            call.tool_call_id,
            outcome.status,
            result,
            reason=reason,
            timed_out=interruption is not None and interruption.failed,
            duration_ms=duration,
            truncated=kept.truncated,
            output_file=output_file,
            undo=outcome.undo,
            **({"images": orjson.dumps(pictures.refs).decode()} if pictures.refs else {}),
        )

    await run.commit(work)
    if outcome.status == "unknown":
        run.calls.unknown.add(call.digest)
    elif not kept.truncated:
        run.seen_cells.tell(outcome.cells)
    if version is not None and outcome.status == "success" and not shown and asked is None:  # pictures are not kept
        definition = definition_digest(run.registry.declaration(call.tool_name))
        stored = StoredOutcome(result, kept.truncated, output_file, definition)
        run.outcomes.keep((call.tool_name, call.digest), version, stored)


async def _shortened(run: ActiveRun, call: ToolCallView, outcome: Outcome) -> Shortened:
    """The text for the model. One beyond the limits is written to a file as well."""
    settings = run.settings
    limits = TextLimits(characters=settings.result_characters, lines=settings.result_lines)
    text, folder = outcome.content, settings.output_directory
    return await asyncio.to_thread(shorten, call.tool_name, text, limits, folder, outcome.output_file)


def _cut_short(outcome: Outcome, interruption: Interruption) -> Outcome:
    """The outcome of a call that we have interrupted: our reason, and its output so far."""
    content = (
        f"{interruption.reason} {outcome.content}"
        if outcome.status == "unknown"
        else f"{interruption.reason}\n{outcome.content}"
    )
    if outcome.status == "unknown":
        return replace(outcome, content=content)
    return replace(outcome, status="error" if interruption.failed else "cancelled", content=content)


logger = logging.getLogger(__name__)
FIRST_LOOK_SECONDS = 0.3
"""A call that begins sooner is never shown as queued."""
LOOK_SECONDS = 0.5
LONGEST_PAUSE = 16.0
"""Between two looks for a call that is behind nothing: it runs, or has not reached the kernel yet."""
_ANSWER_SECONDS = 2.0
"""How long the executor has to answer where a call is. Without an answer the call counts as begun."""


def limit_of(run: ActiveRun, tool_name: str) -> float:
    """Seconds that a call of this tool may run: the smaller of the tool's own limit and the site's."""
    limits = (run.registry.declaration(tool_name).timeout, run.settings.tool_timeouts.get(tool_name))
    return min((one for one in limits if one is not None), default=inf)


@asynccontextmanager
async def watched(
    run: ActiveRun, call: ToolCallView, executor: CallExecutor, running: Execution
) -> AsyncIterator[None]:
    """Watches a call while the block waits for it."""
    work = _watch(run, call, executor, running)
    watching = asyncio.create_task(work, name=f"watch over {call.tool_call_id}")
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _watch(run: ActiveRun, call: ToolCallView, executor: CallExecutor, running: Execution) -> None:
    """The time in which the call waits for a cell does not count."""
    now, limit = asyncio.get_running_loop().time, limit_of(run, call.tool_name)
    shown: int | None = None
    pause, due = LOOK_SECONDS, now() + limit
    await asyncio.sleep(min(FIRST_LOOK_SECONDS, limit))
    while True:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                cell = await executor.waiting_behind(call.approval_id)
            if cell != shown:
                await _show(run, call, cell)
        except KernelGone:
            return  # the call's own end will report it
        except TimeoutError:
            pass
        except Exception:  # the limit holds, whatever is wrong with a look
            logger.exception("It is not known behind what the call %s waits", call.tool_call_id)
        else:
            if cell is not None:
                pause, due = LOOK_SECONDS, now() + limit
            elif shown is not None:
                pause = inf  # it has begun
            shown = cell
        if now() >= due:
            break
        await asyncio.sleep(min(pause, due - now()))
        pause = min(2 * pause, LONGEST_PAUSE)
    await cut_short(run, running, Interruption(f"Timed out after {limit:g} s.", failed=True))


async def _show(run: ActiveRun, call: ToolCallView, cell: int | None) -> None:
    def work(commit: Commit) -> None:
        tool_calls.set_waiting(commit.sql, commit.number, call.tool_call_id, cell)
        show_queue_position(commit, call, cell)

    await run.commit(work)


async def cut_short(run: ActiveRun, running: Execution, interruption: Interruption | None) -> None:
    """Interrupt a running call, and give it some time to end before its outcome counts as unknown. `interruption` has
    the reason where no person asked for it; the first reason stays."""
    running.interruption = running.interruption or interruption
    try:
        await running.executor.interrupt(running.approval_id)
    except Exception:  # a fault of an executor keeps no call from ending
        logger.exception("The executor did not interrupt %s", running.approval_id)
    await asyncio.wait({running.task}, timeout=run.settings.stop_seconds)
    running.task.cancel()
