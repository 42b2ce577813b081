"""The model node: one request, with its tokens and calls on the way to the log."""

from collections.abc import Callable, Mapping

from agent_kernel.errors import ConfigurationError, ContextExceeded, InvalidArguments, ModelError
from agent_kernel.log import message_rows, stored_images, tool_calls
from agent_kernel.log.message_rows import append_message
from agent_kernel.models.base import IMAGES, ModelTurn, RequestedCall
from agent_kernel.models.no_answer import NoAnswer
from agent_kernel.protocol.events import MessageEvent, ToolSeenEvent
from agent_kernel.protocol.ids import new_approval_id, new_message_id
from agent_kernel.protocol.views import ImageRefs
from agent_kernel.protocol.vocabulary import CUT_BY_LENGTH
from agent_kernel.runtime.state.active_run import ActiveRun
from agent_kernel.runtime.state.commits import Commit
from agent_kernel.runtime.state.spending import budgets_of, calls_left
from agent_kernel.runtime.tasks import in_thread_if_long
from agent_kernel.runtime.tool_calls import transitions
from agent_kernel.runtime.tool_calls.execution import add_late_tools
from agent_kernel.runtime.tool_calls.shown_images import NO_PICTURES, Prepared
from agent_kernel.runtime.turns.fit_context import completed, end_too_long, fits, learn, shortened_after
from agent_kernel.runtime.turns.pauses import note_unknown_cost, spend, wait_for_answers, within_budget
from agent_kernel.runtime.turns.prompts import prompt_mentions, prompt_pictures
from agent_kernel.runtime.turns.stream import TurnStream
from agent_kernel.runtime.turns.tool_messages import answer_calls, unknown_calls
from agent_kernel.tools import outcome_texts
from agent_kernel.tools.arguments import canonical, digest, parse
from agent_kernel.tools.review.preview import preview, warnings


async def call_model(run: ActiveRun) -> list[str]:
    """Answer the last step's calls, ask the model, and propose the calls it asks for. Returns the ids of those that
    are to be decided and run; none where the run is over."""
    if not run.is_ending:  # and not once the step is answered: after a restart nobody would be asked any more
        await wait_for_answers(run, await unknown_calls(run))
    await answer_calls(run)
    if run.is_ending or not await within_budget(run):
        return []
    await _take_new_messages(run)
    if run.transcript.is_answered:  # by a process that ended before the run did
        return []
    await add_late_tools(run)
    if not await fits(run):
        return []
    try:
        streamed = await _stream_within_context(run)
    except NoAnswer as error:
        await run.fail("LLM_ERROR", str(error), await _spend_unseen(run, error.turn))
        return []
    except ContextExceeded as refusal:
        await end_too_long(run, str(refusal))
        return []
    except (ModelError, ConfigurationError) as error:
        await run.fail("LLM_ERROR", str(error))
        return []
    if streamed is None:
        return []
    turn, stream = streamed
    run.finish_reason = turn.finish_reason
    proposals = await _record(run, turn, stream)
    if turn.finish_reason == "length" and not turn.tool_calls:
        run.notify(CUT_BY_LENGTH)
    return await _check_validity(run, proposals)


async def _take_new_messages(run: ActiveRun) -> None:
    """Commit the messages that arrived while the run was busy, for the next request."""
    while run.inbox:
        message = run.inbox[0]
        pictures = await prompt_pictures(run, message.content, message.images)
        mentions = await prompt_mentions(run, message.content)
        await add_user_message(run, message.content, mentions, pictures, kept=message, message_id=message.message_id)
        run.inbox.remove(message)


async def take_message(
    run: ActiveRun, content: str, message_id: str | None = None, sent: ImageRefs | None = None
) -> bool:
    """Keep a person's message, with the pictures that were `sent` with it, in the log for the next model call. False
    where the run has ended."""
    run_id = run.run_id
    message = await run.commit(
        lambda commit: message_rows.keep(commit.sql, commit.number, run_id, content, message_id, sent)
    )
    if not run.inbox_is_open:
        await run.commit(lambda commit: message_rows.drop(commit.sql, message))
        return False
    run.inbox.append(message)
    return True


async def add_user_message(
    run: ActiveRun,
    content: str,
    environment: str = "",
    pictures: Prepared = NO_PICTURES,
    kept: message_rows.KeptMessage | None = None,
    message_id: str | None = None,
) -> None:
    body: dict[str, object] = {"role": "user", "content": content, "environment": environment}
    if pictures.refs:
        body[IMAGES] = pictures.refs

    def work(commit: Commit) -> None:
        stored_images.keep(commit.sql, commit.number, pictures.data)
        commit.add_user_message(run.run_id, body, message_id)
        if kept is not None:
            message_rows.drop(commit.sql, kept)

    await run.commit(work)
    run.transcript.add(body)


async def _stream_within_context(run: ActiveRun) -> tuple[ModelTurn, TurnStream] | None:
    """As `_stream`, with a second try for a request that was refused for its length."""
    try:
        return await _stream(run)
    except ContextExceeded as refusal:
        if not await shortened_after(run, refusal):
            if run.is_ending:
                return None
            raise
    return await _stream(run)


async def _stream(run: ActiveRun) -> tuple[ModelTurn, TurnStream] | None:
    """One turn of the model, and its stream. `None` where the run was stopped while it streamed; the
    text so far is kept. Where the run's time ran out meanwhile and was extended, the model is asked again."""
    while True:
        turn = TurnStream(run)
        read = await _read(run, turn)
        if read is not None:
            return read, turn
        if not await _is_asked_again(run, turn):
            return None


async def _read(run: ActiveRun, turn: TurnStream) -> ModelTurn | None:
    if run.out_of_time:
        return None
    read: ModelTurn | None = None
    try:
        with run.spans.turn(run.model) as ended:
            read = await run.stoppable(turn.read(), "model")
            if read is not None:
                ended(read)
    except ModelError as error:
        if turn.begun and not isinstance(error, NoAnswer):
            note_unknown_cost(run)
        raise
    finally:
        if read is None:
            await turn.break_off()
        run.last_message_id = turn.message_id
    return read


async def _is_asked_again(run: ActiveRun, turn: TurnStream) -> bool:
    """Keep or take back an answer that was cut off. Whether the model is asked again."""
    again = run.out_of_time is not None and not run.is_ending and await within_budget(run)
    if again:
        if turn.asked:
            await _take_back(run, turn)
        return await within_budget(run)  # the answer that was taken back counts
    if turn.text:
        await _record(run, ModelTurn(content=turn.text, finish_reason="cancelled"), turn)
    elif turn.asked:
        note_unknown_cost(run)
    return False


async def _take_back(run: ActiveRun, turn: TurnStream) -> None:
    """Remove an answer that was cut off from the conversation. Its cost still counts."""
    write_spent = await _spend_unseen(run, ModelTurn(content=turn.text))
    event = MessageEvent(run_id=run.run_id, message_id=turn.message_id, role="assistant", content="")

    def work(commit: Commit) -> None:
        commit.emit(event)
        write_spent(commit)

    await run.commit(work)


async def _spend_unseen(run: ActiveRun, turn: ModelTurn) -> Callable[[Commit], None]:
    """As `spend`, for a turn that is no part of the conversation."""
    written = {"role": "assistant", "content": turn.content}
    return await spend(run, turn.usage, 0, steps=0, counted=completed(run, turn.usage, written))


async def _record(run: ActiveRun, turn: ModelTurn, stream: TurnStream) -> list[tuple[tool_calls.Proposal, str | None]]:
    """Commit the turn: its message and its calls, each with the fault that makes it invalid, if any."""
    written = "".join(call.arguments for call in turn.tool_calls)
    checked = await in_thread_if_long(written, lambda: [_check(run, call) for call in turn.tool_calls])
    left, why_beyond = calls_left(budgets_of(run.view, run.meter)) or (len(checked), "")
    body = _assistant_body(turn)
    counted = completed(run, turn.usage, body)
    write_spent = await spend(run, turn.usage, len(checked[:left]), counted=counted, tells=bool(checked))
    learn(run, turn.usage.input_tokens)
    message_id = run.last_message_id or new_message_id()
    run_id = run.run_id
    # An adapter may have learned during the request that the model takes no pictures.
    seen = stream.seen if run.sends_images else {}

    def work(commit: Commit) -> None:
        for event in stream.rest:
            commit.emit(event)
        append_message(commit.sql, commit.number, message_id, run_id, body)
        if turn.content:
            commit.emit(MessageEvent(run_id=run_id, message_id=message_id, role="assistant", content=turn.content))
        _note_seen(commit, seen)
        for proposal, fault in checked[:left]:
            transitions.propose(commit, proposal, fault)
        for proposal, fault in checked[left:]:
            _propose_beyond(commit, proposal, fault, why_beyond)
        write_spent(commit)

    await run.commit(work)
    run.transcript.add(body)
    run.calls.of_step = [proposal.tool_call_id for proposal, _ in checked]
    return checked


def _propose_beyond(commit: Commit, proposal: tool_calls.Proposal, fault: str | None, why: str) -> None:
    """Propose and deny a call beyond the budget: nobody is asked, and it never starts."""
    transitions.propose(commit, proposal, fault)
    if fault is None:
        denial = outcome_texts.denied("by policy", why)
        verdict = tool_calls.Verdict(False, "policy", why)
        transitions.apply_verdict(commit, proposal.approval_id, verdict, denial=denial)


def _note_seen(commit: Commit, seen: Mapping[str, int]) -> None:
    """Note the pictures of the request that the model has answered."""
    for tool_call_id, count in seen.items():
        run_id = stored_images.note_seen(commit.sql, commit.number, tool_call_id, count)
        if run_id is not None:
            commit.emit(ToolSeenEvent(run_id=run_id, tool_call_id=tool_call_id, images=count))


def _check(run: ActiveRun, call: RequestedCall) -> tuple[tool_calls.Proposal, str | None]:
    fault: str | None = None
    name, arguments = run.registry.unwrapped(call.name, call.arguments)
    try:
        tool_input = run.registry.validate(name, arguments)
    except InvalidArguments as error:
        fault, tool_input = str(error), arguments
    known = name in run.registry
    proposal = tool_calls.Proposal(
        tool_call_id=call.id,
        approval_id=new_approval_id(),
        run_id=run.run_id,
        tool_name=name,
        tool_input=tool_input,
        digest=digest(tool_input),
        read_only=known and run.registry.declaration(name).read_only,
        recorded=run.model.recorded,
        warnings=() if fault else tuple(warnings(name, tool_input)),
        preview=None if fault else preview(name, tool_input),
    )
    return proposal, fault


def _assistant_body(turn: ModelTurn) -> dict[str, object]:
    """The message as the log keeps it. Arguments that are no JSON object go back to the model as `{}`, because some
    servers parse them and refuse the request; the call's error result quotes what was wrong."""
    body: dict[str, object] = {"role": "assistant", "content": turn.content}
    if turn.reasoning:
        body["reasoning"] = turn.reasoning
    if turn.tool_calls:
        body["tool_calls"] = [_wire_call(call) for call in turn.tool_calls]
    if raw := {call.id: call.raw_name for call in turn.tool_calls if call.raw_name}:
        body["raw_names"] = raw  # for the log alone
    if turn.provider is not None:
        body["provider"] = turn.provider.to_wire()
    return body


def _wire_call(call: RequestedCall) -> dict[str, object]:
    function = {"name": call.name, "arguments": _parsable(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _parsable(arguments: str) -> str:
    """The arguments unchanged where they are a JSON object, or as one where they stand for one (`null`, an object in a
    string)."""
    try:
        parsed = parse(arguments)
    except InvalidArguments:
        return "{}"
    return arguments if arguments.lstrip().startswith("{") else canonical(parsed)


async def _check_validity(run: ActiveRun, proposals: list[tuple[tool_calls.Proposal, str | None]]) -> list[str]:
    """The ids of a step's calls. A model that sends nothing but invalid calls is stopped after a few tries."""
    invalid = run.count_invalid_steps(invalid=bool(proposals) and all(fault for _, fault in proposals))
    if invalid > run.settings.validation_retries:
        await answer_calls(run)
        await run.fail(
            "LLM_ERROR",
            f"The model sent calls that are not valid {invalid} times in a row. "
            "Say what you want in other words, or choose another model.",
        )
        return []
    return [proposal.tool_call_id for proposal, _ in proposals]
