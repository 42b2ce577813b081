"""Tool messages: exactly one per call, in the model's order, before the next model call."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from agent_kernel.errors import ModelError
from agent_kernel.log import event_rows, message_rows, stored_images, tool_calls
from agent_kernel.log.event_rows import START, Position
from agent_kernel.log.measures import read_run_metrics
from agent_kernel.log.message_rows import append_message
from agent_kernel.models.base import IMAGES, RecordsDecisions
from agent_kernel.protocol.ids import new_message_id
from agent_kernel.protocol.run_results import RunResult
from agent_kernel.protocol.views import ImageRefs, RunView, ToolCallView
from agent_kernel.runtime.state.active_run import ActiveRun
from agent_kernel.runtime.state.commits import Commit
from agent_kernel.runtime.state.transcript import unanswered_calls
from agent_kernel.tools.truncation import TextLimits, truncate


async def unknown_calls(run: ActiveRun) -> list[ToolCallView]:
    """The calls of the step that ended whose outcome is unknown."""
    if not run.calls.unknown:
        return []
    number, step = run.conversation.number, run.calls.of_step
    ended = await run.log.read(lambda sql: [tool_calls.read_call(sql, number, one) for one in step])
    return [call for call in ended if call.state == "unknown"]


async def answer_calls(run: ActiveRun) -> None:
    """Write the tool messages of the step that ended: nothing may come before them. If the process dies first, recovery
    makes them of the log's calls."""
    step, run.calls.of_step = run.calls.of_step, ()
    if not step:
        return
    ended, bodies = await run.commit(lambda commit: _answer(commit, run.run_id, step, run.settings.step_characters))
    for body in bodies:
        run.transcript.add(body)
    _note_step(run, ended)
    await _record_decisions(run, step)


async def _record_decisions(run: ActiveRun, calls: Sequence[str]) -> None:
    """Write the decisions on a step's calls, where the model is recorded. A run whose recording can't be written fails:
    it would play to another end."""
    if not isinstance(run.model, RecordsDecisions):
        return
    try:
        for decision in run.take_decisions(calls):
            await run.model.record_decision(decision, prompt=run.spec.prompt)
    except ModelError as error:
        await run.fail("LLM_ERROR", str(error))


def _note_step(run: ActiveRun, ended: Sequence[ToolCallView]) -> None:
    """Note the step for `Repeats`. One in which a person intervened is no repetition."""
    if all(call.state in ("success", "error", "denied") for call in ended):
        run.repeats.add(ended)
    else:
        run.repeats.forget()


def write_open_answers(commit: Commit, run_id: str, step_characters: int) -> None:
    """Write the tool messages of all calls that none answers, for a run that does not go on."""
    _answer(commit, run_id, unanswered_calls(commit.sql, commit.number), step_characters)


def _answer(
    commit: Commit, run_id: str, step: Sequence[str], step_characters: int
) -> tuple[list[ToolCallView], list[dict[str, Any]]]:
    """Write the tool messages of these calls. Returns the calls and the messages."""
    calls = [tool_calls.read_call(commit.sql, commit.number, one) for one in step]
    bodies = _tool_messages(calls, stored_images.shown_by(commit.sql, commit.number, step), step_characters)
    for body in bodies:
        append_message(commit.sql, commit.number, new_message_id(), run_id, body)
    return calls, bodies


def _tool_messages(
    calls: Sequence[ToolCallView], shown: Mapping[str, ImageRefs], step_characters: int
) -> list[dict[str, Any]]:
    """One message per call. Where the results are too long together, each is cut to its share."""
    results = {call.tool_call_id: call.result or "" for call in calls}
    if sum(map(len, results.values())) > step_characters:
        share = TextLimits(characters=step_characters // len(results))
        results = {one: truncate(result, share).text for one, result in results.items()}
    return [
        {"role": "tool", "tool_call_id": one, "content": result} | ({IMAGES: shown[one]} if one in shown else {})
        for one, result in results.items()
    ]


def move_unread_messages(commit: Commit, run_id: str) -> list[dict[str, Any]]:
    """Move messages that a run did not read into the conversation, for the next run's model."""
    bodies = []
    for message in message_rows.read_kept(commit.sql, commit.number, run_id):
        body: dict[str, Any] = {"role": "user", "content": message.content}
        if message.images:
            body[IMAGES] = message.images
        commit.add_user_message(run_id, body, message.message_id)
        message_rows.drop(commit.sql, message)
        bodies.append(body)
    return bodies


def read_result(sql: sqlite3.Connection, conversation: int, view: RunView, after: Position = START) -> RunResult:
    """The transcript of one run, as the log has it. `after` is a place before the run's beginning."""
    messages = [m for m in message_rows.message_views(sql, conversation, after) if m.run_id == view.run_id]
    outputs = event_rows.outputs_by_call(sql, conversation, after)
    run_calls = [
        call.model_copy(update={"outputs": outputs.get(call.tool_call_id, [])})
        for call in tool_calls.list_calls(sql, run_id=view.run_id)
    ]
    answers = [message.content for message in messages if message.role == "assistant" and message.content]
    if view.status == "error":
        messages += message_rows.cut_off_answers(sql, conversation, view.run_id, after)
    return RunResult(
        run=view,
        text=answers[-1] if answers else "",
        messages=messages,
        tool_calls=run_calls,
        metrics=read_run_metrics(sql, view),
    )
