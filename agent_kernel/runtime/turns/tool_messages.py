"""Tool messages: exactly one per call, in the model's order, before the next model call."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from agent_kernel.errors import ModelError
from agent_kernel.log import event_rows, stored_images, stored_messages, tool_calls
from agent_kernel.log.event_rows import START, Position, append_message
from agent_kernel.log.measures import read_run_metrics
from agent_kernel.models.base import IMAGES, RecordsDecisions
from agent_kernel.protocol.ids import new_message_id
from agent_kernel.protocol.runs import RunResult
from agent_kernel.protocol.views import ImageRefs, MessageView, RunView, ToolCallView
from agent_kernel.runtime.state.active_run import ActiveRun
from agent_kernel.runtime.state.commits import Commit
from agent_kernel.runtime.state.repeats import EndedCall
from agent_kernel.tools.truncation import TextLimits, truncate


async def answer_calls(run: ActiveRun) -> list[ToolCallView]:
    """Make the tool messages of the step that ended. The next commit of a message writes them, which saves a commit per
    step; if the process dies first, recovery makes them anew from the log's calls. Returns the calls whose outcome is
    unknown."""
    step = run.calls.end_step()
    if not step.calls:
        return []
    calls, results, shown = step.calls, step.results, step.images
    unknown: list[ToolCallView] = []
    ran = True
    if any(tool_call_id not in results for tool_call_id in calls):
        number = run.conversation.number
        ended, shown = await run.log.read(
            lambda sql: (
                [tool_calls.read_call(sql, number, one) for one in calls],
                stored_images.shown_by(sql, number, calls),
            )
        )
        results = {call.tool_call_id: call.result or "" for call in ended}
        unknown = [call for call in ended if call.state == "unknown"]
        ran = all(call.state in ("success", "error", "denied") for call in ended)
    results = {tool_call_id: results[tool_call_id] for tool_call_id in calls}
    _note_step(run, results if ran else {})
    run.transcript.add_answers(tool_messages_for(results, shown, run.settings.step_characters))
    await _record_decisions(run, calls)
    return unknown


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


def _note_step(run: ActiveRun, results: Mapping[str, str]) -> None:
    """Note the step for `Repeats`. One in which a person intervened (`results` is empty) is no repetition."""
    said = next((message for message in reversed(run.transcript.history) if message["role"] == "assistant"), {})
    asked = {call["id"]: call["function"] for call in said.get("tool_calls", ())}
    if results and results.keys() <= asked.keys():
        step = [EndedCall(asked[one]["name"], asked[one]["arguments"], result) for one, result in results.items()]
        run.repeats.add(step)
    else:
        run.repeats.forget()


def write_tool_messages(commit: Commit, run: ActiveRun) -> None:
    """Write what `answer_calls` made, before the message that follows it."""
    for body in run.transcript.unwritten:
        append_message(commit.sql, commit.number, new_message_id(), run.run_id, body)


def read_tool_messages(
    sql: sqlite3.Connection, conversation: int, tool_call_ids: list[str], step_characters: int
) -> list[dict[str, Any]]:
    """The tool messages of calls, from their results in the log."""
    results = {one: tool_calls.read_call(sql, conversation, one).result or "" for one in tool_call_ids}
    return tool_messages_for(results, stored_images.shown_by(sql, conversation, tool_call_ids), step_characters)


def tool_messages_for(
    results: dict[str, str], shown: Mapping[str, ImageRefs], step_characters: int
) -> list[dict[str, Any]]:
    """One message per call. Where the results are too long together, each is cut to its share."""
    share = step_characters // max(1, len(results))
    total = sum(map(len, results.values()))
    bodies = []
    for tool_call_id, result in results.items():
        content = truncate(result, TextLimits(characters=share)).text if total > step_characters else result
        body: dict[str, Any] = {"role": "tool", "tool_call_id": tool_call_id, "content": content}
        bodies.append(body | {IMAGES: shown[tool_call_id]} if tool_call_id in shown else body)
    return bodies


def move_unread_messages(commit: Commit, run_id: str) -> list[dict[str, Any]]:
    """Move messages that a run did not read into the conversation, for the next run's model."""
    bodies = []
    for message in stored_messages.read_kept(commit.sql, commit.number, run_id):
        body: dict[str, Any] = {"role": "user", "content": message.content}
        if message.images:
            body[IMAGES] = message.images
        commit.add_user_message(run_id, body, message.message_id)
        stored_messages.drop(commit.sql, message)
        bodies.append(body)
    return bodies


def read_result(sql: sqlite3.Connection, conversation: int, view: RunView, after: Position = START) -> RunResult:
    """The transcript of one run, as the log has it. `after` is a place before the run's beginning."""
    messages = [m for m in event_rows.message_views(sql, conversation, after) if m.run_id == view.run_id]
    outputs = event_rows.outputs_by_call(sql, conversation, after)
    run_calls = [
        call.model_copy(update={"outputs": outputs.get(call.tool_call_id, [])})
        for call in tool_calls.list_calls(sql, run_id=view.run_id)
    ]
    answers = [message.content for message in messages if message.role == "assistant" and message.content]
    if view.status == "error":
        cut_off = event_rows.cut_off_answers(sql, conversation, view.run_id, after)
        messages += map(MessageView.model_validate, cut_off)
    return RunResult(
        run=view,
        text=answers[-1] if answers else "",
        messages=messages,
        tool_calls=run_calls,
        metrics=read_run_metrics(sql, view),
    )
