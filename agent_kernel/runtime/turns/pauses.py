"""What a run spends, and its pauses until a person answers, which are in the log, so that they outlive the process.

At a budget, and where it repeats itself, a run waits until a person lets it continue; unattended runs end instead. A
call with an unknown outcome is answered about before the model continues, which would build on it. Such a call is never
run again by itself; the same arguments always need an approval, whatever the policy."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from agent_kernel.errors import AlreadyDecided, BudgetExceeded, IllegalTransition, InvalidArguments
from agent_kernel.log import audit, message_rows, tool_calls
from agent_kernel.log.measures import COST_DIGITS, Turn, add_turn
from agent_kernel.log.runs import save_run
from agent_kernel.models import prices
from agent_kernel.models.base import Model, TokenUsage, asks_nobody, facts_of
from agent_kernel.models.prices import TurnCost, is_priced, may_cost
from agent_kernel.models.usage import COUNTS
from agent_kernel.protocol.events import ErrorEvent, ToolAnsweredEvent, UsageEvent, utc_now
from agent_kernel.protocol.ids import new_pause_id
from agent_kernel.protocol.views import BudgetRaise, PauseView, RunView, ToolCallView, Usage
from agent_kernel.protocol.vocabulary import BudgetLimits, UnknownAnswer, standing
from agent_kernel.runtime.state.active_run import ActiveRun
from agent_kernel.runtime.state.commits import Commit
from agent_kernel.runtime.state.spending import Budget, budgets_of, together, with_raised
from agent_kernel.tools.arguments import canonical, parse


async def within_budget(run: ActiveRun) -> bool:
    """Whether the model may be asked again. False where the run is over."""
    await ready(run)
    while (pause := run.view.paused) is not None or (exceeded := _exceeded(run)) is not None:
        if pause is None:
            assert exceeded is not None
            if not await wait_for_client(run):
                await run.fail("BUDGET_EXCEEDED", str(exceeded))
                return False
            pause = await _pause(run, exceeded)
        with run.task():
            answered = await run.wait_for_person(run.waits.expect(pause.pause_id))
        if not answered:
            await end_paused(run)
        if run.is_ending:
            return False
    run.out_of_time = None
    return not run.is_ending


def _exceeded(run: ActiveRun) -> BudgetExceeded | None:
    """Why the model may not be asked again: the run's own budget, that of its conversation, or that it repeats
    itself."""
    try:
        for budget in budgets_of(run.view, run.meter):
            _check(run, budget)
    except BudgetExceeded as exceeded:
        return exceeded
    repeated = run.repeats.found() if run.settings.pause_at_repeats else ""
    return _repeats(repeated) if repeated else None


def _repeats(repeated: str) -> BudgetExceeded:
    advice = "Say what you want in other words, or choose another model."
    return BudgetExceeded(f"The agent repeats itself: {repeated}.", advice, [], repeated=repeated)


def _check(run: ActiveRun, budget: Budget) -> None:
    """Raises `BudgetExceeded` where the model may not be asked again."""
    limits, model = budget.limits, run.model
    if limits.usd is not None and not may_cost(model):
        replace(budget, limits=replace(limits, usd=None)).check()
        return
    budget.check()
    if limits.usd is None:
        return
    if not is_priced(model):
        raise budget.unpriced(f"No price is known for {run.view.model}")
    if budget.usage.cost_is_partial:
        raise budget.unpriced(f"What this {budget.of} has cost is not known in full")


async def wait_for_client(run: ActiveRun) -> bool:
    """Whether a client shows the conversation, or has shown it. Gives a page some time to come where none has."""
    seconds = run.settings.client_seconds
    if not run.attended or run.shown.is_set() or run.spec.watched or seconds is None:
        return run.attended
    coming = asyncio.create_task(run.shown.wait(), name=f"page of {run.run_id}")
    stopped = run.waits.expect("page")
    either: set[asyncio.Future[Any]] = {coming, stopped}
    try:
        await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        coming.cancel()
        stopped.cancel()
    return run.shown.is_set()


async def _pause(run: ActiveRun, exceeded: BudgetExceeded) -> PauseView:
    run.meter.pause()
    pause = PauseView(
        pause_id=new_pause_id(),
        reached=exceeded.reached,
        of=exceeded.of,
        repeated=exceeded.repeated,
        seconds=run.meter.seconds,
        since=utc_now(),
        unpriced=exceeded.unpriced,
    )
    if exceeded.unpriced:
        run.notify(exceeded.what)
    # For clients that do not know pauses.
    said = ErrorEvent(
        run_id=run.run_id,
        code="BUDGET_EXCEEDED",
        message=f"{exceeded.what} The run is paused before its next model call.",
        details={"pause_id": pause.pause_id},
    )

    def work(commit: Commit, view: RunView) -> None:
        commit.emit(said)
        commit.save_run(view)

    await run.commit_view(work, paused=pause)
    return pause


async def raise_budget(
    run: ActiveRun, pause_id: str, add: BudgetLimits, decided_by: str | None, *, without_usd: bool = False
) -> None:
    """Add to the budget that a paused run has reached, and let it go on. The first answer wins.

    Raises `AlreadyDecided`, and `InvalidArguments` where a limit that is reached stays so.
    """
    before = run.view
    pause = before.paused
    if pause is None or pause.pause_id != pause_id:
        raise refused(before, pause_id)
    raised_to, lifted = _raised(run, pause, add, without_usd=without_usd)
    step = BudgetRaise(
        pause_id=pause_id,
        add=add,
        of=pause.of,
        repeated=pause.repeated,
        without_usd=lifted,
        decided_by=decided_by,
        at=utc_now(),
        steps=before.usage.steps,
    )

    def work(commit: Commit, view: RunView) -> None:
        audit.record_raise(commit.sql, view, step)
        commit.save_run(view)

    # The view changes before the commit, so that a second answer finds the first one.
    await run.commit_view(work, paused=None, raises=[*before.raises, step], **raised_to)
    run.repeats.forget()
    run.meter.go_on()
    run.waits.resolve(pause_id, None)


def _raised(
    run: ActiveRun, pause: PauseView, add: BudgetLimits, *, without_usd: bool
) -> tuple[dict[str, object], bool]:
    """The changes of the run's view, and whether a limit in US dollars is lifted. Raises `InvalidArguments`."""
    budget = next(one for one in budgets_of(run.view, run.meter) if one.of == pause.of)
    lifted = without_usd and budget.limits.usd is not None
    more = budget.raised(add)
    if lifted:
        more = replace(more, usd=None)
    try:
        _check(run, replace(budget, limits=more))
    except BudgetExceeded as exceeded:
        names = " and ".join(exceeded.reached).replace("_", " ")
        said = f"Add {names} too: that limit is reached."
        if exceeded.unpriced:
            said = f"{exceeded.what} Go on without it, or stop the run."
        raise InvalidArguments(f"{said} Nothing was changed.", field="add") from exceeded
    whole = run.view.conversation_budget
    if whole is not None and budget.of == "conversation":
        return {"conversation_budget": with_raised(whole, more)}, lifted
    return {"budget": more}, lifted


async def end_for_new_message(run: ActiveRun, decided_by: str | None) -> None:
    """End a paused run because a new message takes its place."""
    await end_paused(run, lambda commit: audit.record_message(commit.sql, run.view, decided_by))


async def end_paused(run: ActiveRun, noted: Callable[[Commit], None] | None = None) -> None:
    """End a paused run that got no answer. `noted` adds to the same transaction."""
    pause = run.view.paused
    if pause is None:
        return
    exceeded = _exceeded(run) or _repeats(pause.repeated)
    await run.fail("BUDGET_EXCEEDED", str(exceeded), noted)
    run.waits.resolve(pause.pause_id, None)


def refused(run: RunView, pause_id: str) -> AlreadyDecided:
    """The error for an answer that comes too late, with the first answer where there was one."""
    first: dict[str, Any] = {"run_id": run.run_id, "pause_id": pause_id}
    for given in run.raises:
        if given.pause_id == pause_id:
            done = "told to go on" if given.repeated else "budget raised"
            said = f"Already decided: {done} by {given.decided_by or 'a person'}, {given.at}. Nothing was added."
            return AlreadyDecided(said, first | {"raised": given.model_dump(mode="json", exclude_none=True)})
    return AlreadyDecided("The run is paused again." if run.paused else "This run is not paused.", first)


async def wait_for_answers(run: ActiveRun, unknown: Sequence[ToolCallView]) -> None:
    """Wait until a person has answered about each of these calls of a step, or the run is over. Unattended runs, and
    those without an answer in the site's time, continue, and so do those of a client, which is told."""
    for call in unknown if run.spec.client_call is None else ():
        answered = run.waits.expect(call.tool_call_id)
        is_answered = (await run.read_call(call.tool_call_id)).unknown_answer is not None
        # An answer may come by HTTP while a page is awaited.
        if not is_answered and await wait_for_client(run):
            with run.task():
                await run.wait_for_person(answered)
        answered.cancel()
        if run.is_ending:
            return


async def answer(run: ActiveRun, call: ToolCallView, said: UnknownAnswer, decided_by: str | None) -> None:
    """Commit a person's answer about a call with an unknown outcome, and let the run continue. The first answer wins.

    Raises `AlreadyDecided`, and `IllegalTransition` for any other call.
    """
    if call.state != "unknown":
        raise IllegalTransition(f"The outcome of this call is known. {standing(call.state)}")

    def work(commit: Commit) -> message_rows.KeptMessage | None:
        if not tool_calls.answer_unknown(commit.sql, commit.number, call.tool_call_id, said):
            first = tool_calls.read_call(commit.sql, commit.number, call.tool_call_id)
            raise AlreadyDecided("Already decided: somebody has answered for this call.", first.model_dump())
        audit.record_unknown_answer(commit.sql, call, said, decided_by)
        commit.emit(
            ToolAnsweredEvent(run_id=call.run_id, tool_call_id=call.tool_call_id, answer=said, decided_by=decided_by)
        )
        if said == "continue":
            return None
        return message_rows.keep(commit.sql, commit.number, call.run_id, retry_text(call))

    message = await run.commit(work)
    if message is not None:
        run.inbox.append(message)
    run.waits.resolve(call.tool_call_id, None)


async def continue_all(run: ActiveRun, decided_by: str | None) -> None:
    """Answer for all calls with an unknown outcome that the run continues: a new message was sent."""
    for call in await run.read_calls():
        if call.state == "unknown" and call.unknown_answer is None:
            await answer(run, call, "continue", decided_by)


def outside_walls(call: ToolCallView) -> ToolCallView:
    """The same command, outside the walls. Raises `IllegalTransition` for another tool's call."""
    if call.tool_name != "run_shell":
        raise IllegalTransition(f"There are no walls around {call.tool_name}.")
    return call.model_copy(update={"tool_input": canonical(parse(call.tool_input) | {"outside": True})})


def retry_text(call: ToolCallView) -> str:
    """The message to the model that asks for a call once more."""
    return f"Try this call again: {call.tool_name} with {call.tool_input}"


async def spend(
    run: ActiveRun,
    reported: TokenUsage,
    calls: int,
    *,
    steps: int = 1,
    counted: TokenUsage | None = None,
    tells: bool = True,
) -> Callable[[Commit], None]:
    """Count a turn of the run's model. Returns the function that writes it in the commit of the turn.

    `steps` is 0 for a turn that the run does not show. `counted` has estimates for what the service did not report;
    prices are never computed from estimates. `tells` is false for a run's last turn: `complete` tells its usage."""
    await ready(run)
    model = run.model
    tokens = counted or reported
    cost = prices.price_turn(model, reported)
    usage = together(run.view.usage, _usage_of(tokens, cost, calls, steps, estimated=tokens != reported))
    run.change(usage=usage.model_copy(update={"seconds": run.meter.rounded}))
    view = run.view
    turn = None if asks_nobody(model) else _row(model, tokens, cost)

    def write(commit: Commit) -> None:
        save_run(commit.sql, view)
        if turn is not None:
            add_turn(commit.sql, commit.number, turn)
            commit.measured.append(turn)
        if tells:
            commit.emit(UsageEvent(run_id=view.run_id, usage=view.usage))

    return write


async def ready(run: ActiveRun) -> None:
    """Load the table of prices in a thread, where it is needed."""
    if prices.wants_loading(run.model):
        await asyncio.to_thread(prices.load)


def note_unknown_cost(run: ActiveRun) -> None:
    """A turn ended before its service reported the usage: mark the cost as partial where it may have cost something."""
    if prices.price_turn(run.model, TokenUsage()).partial:
        run.change(usage=run.view.usage.model_copy(update={"cost_is_partial": True}))


def _by_kind(tokens: TokenUsage) -> dict[str, int]:
    """As `asdict`, which copies deeply."""
    return {kind: getattr(tokens, kind) for kind in COUNTS}


def _row(model: Model, tokens: TokenUsage, cost: TurnCost) -> Turn:
    return Turn(
        model=model.name,
        host=prices.host_of(facts_of(model).base_url),
        **_by_kind(tokens),
        usd=cost.usd,
        partial=cost.partial,
    )


def _usage_of(tokens: TokenUsage, cost: TurnCost, calls: int, steps: int, *, estimated: bool) -> Usage:
    """The usage of one turn. Its cost is rounded as a sum of such costs is exact."""
    return Usage(
        **_by_kind(tokens),
        total_tokens=tokens.input_tokens + tokens.output_tokens,
        tool_calls=calls,
        steps=steps,
        cost=None if cost.usd is None else float(cost.usd.quantize(Decimal(1).scaleb(-COST_DIGITS))),
        cost_is_partial=cost.partial,
        cost_is_reported=cost.reported,
        estimated=estimated,
    )
