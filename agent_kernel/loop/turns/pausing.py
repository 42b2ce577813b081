"""A run that reached its budget waits for a person before its next model call; where nobody can be asked, it ends.

The pause is part of the run's row, so it outlives the process; a run that waits for long is parked like one that waits
for an approval, and takes no task.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from agent_kernel.errors import AlreadyDecided, BudgetExceeded, InvalidArguments, LogUnavailable
from agent_kernel.log import trail
from agent_kernel.loop.commits import Commit
from agent_kernel.loop.run import ActiveRun
from agent_kernel.loop.turns.budgets import check, raised, unpriced
from agent_kernel.loop.turns.spending import ready
from agent_kernel.models.prices import is_priced, may_cost
from agent_kernel.protocol.events import ErrorEvent, utc_now
from agent_kernel.protocol.ids import new_pause_id
from agent_kernel.protocol.views import BudgetLimits, BudgetRaise, PauseView, RunView


async def within_budget(run: ActiveRun) -> bool:
    """Whether the model may be asked again. False where the run is over, or parked."""
    await ready(run)
    try:
        _check(run, run.view.budget, run.meter.seconds)
    except BudgetExceeded as exceeded:
        if run.view.paused is None and not await somebody_looks(run):
            await run.fail("BUDGET_EXCEEDED", str(exceeded))
            return False
        if run.view.paused is None:
            await _pause(run, exceeded)
    pause = run.view.paused
    if pause is not None and not await heard(run, pause.pause_id):
        await give_up(run)
    return not (run.parked or run.is_ending)


def _check(run: ActiveRun, limits: BudgetLimits, seconds: float) -> None:
    """Raises `BudgetExceeded` where the model may not be asked again."""
    model, usage = run.setting.model, run.view.usage
    if limits.usd is not None and not may_cost(model):
        limits = limits.model_copy(update={"usd": None})
    check(limits, usage, seconds)
    if limits.usd is None:
        return
    if not is_priced(model):
        raise unpriced(limits, f"No price is known for {run.view.model}")
    if usage.cost_is_partial:
        raise unpriced(limits, "What this run has cost is not known in full")


async def somebody_looks(run: ActiveRun) -> bool:
    """Whether a page shows the conversation, or has, or somebody follows the run without one; else a page is given a
    while to come."""
    seconds = run.setting.settings.face_seconds
    if not run.setting.attended or run.person.shown or run.spec.watched or seconds is None:
        return run.setting.attended
    coming = asyncio.create_task(run.person.shown.wait(), name=f"page of {run.view.run_id}")
    stopped = run.person.asked.expect("page")
    either: set[asyncio.Future[Any]] = {coming, stopped}
    try:
        await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        coming.cancel()
        stopped.cancel()
    return bool(run.person.shown)


async def heard(run: ActiveRun, key: str) -> bool:
    """Wait until a person has said something about `key`, or the run is stopped or parked. False after the time that a
    site gives for an answer."""
    answer = run.person.asked.expect(key)
    settings = run.setting.settings
    run.open.tasks += 1
    try:
        if settings.approval_seconds is not None:
            await asyncio.wait({answer}, timeout=settings.approval_seconds)
            return answer.done()
        while not answer.done():
            await asyncio.wait({answer}, timeout=settings.park_seconds)
            if not answer.done():
                run.park()
        return True
    finally:
        run.open.tasks -= 1
        answer.cancel()


async def _pause(run: ActiveRun, exceeded: BudgetExceeded) -> None:
    run.meter.pause()
    pause = PauseView(
        pause_id=new_pause_id(),
        reached=exceeded.reached,
        seconds=run.meter.seconds,
        since=utc_now(),
        unpriced=exceeded.unpriced,
    )
    if exceeded.unpriced:
        run.notify(str(exceeded).partition(" The run stopped")[0])
    run.change(paused=pause)
    # Clients that do not know of pauses learn why nothing moves.
    said = ErrorEvent(
        run_id=run.view.run_id,
        code="BUDGET_EXCEEDED",
        message=str(exceeded).replace("The run stopped", "The run is paused").partition(" Nothing is lost")[0],
        details={"pause_id": pause.pause_id},
    )

    def work(commit: Commit) -> None:
        commit.emit(said)
        run.save(commit)

    await run.commit(work)


async def raise_budget(
    run: ActiveRun, pause_id: str, add: BudgetLimits, decided_by: str | None, *, without_usd: bool = False
) -> None:
    """Add to the budget of a paused run, and let it go on. The first answer wins.

    Raises `AlreadyDecided`, and `InvalidArguments` where a limit that is reached stays so.
    """
    before = run.view
    pause = before.paused
    if pause is None or pause.pause_id != pause_id:
        raise refused(before, pause_id)
    budget = raised(before.budget, add, before.usage, pause.seconds)
    if without_usd:
        budget = budget.model_copy(update={"usd": None})
    try:
        _check(run, budget, pause.seconds)
    except BudgetExceeded as exceeded:
        if exceeded.unpriced:
            why = str(exceeded).partition(" The run stopped")[0]
            raise InvalidArguments(f"{why} Go on without it, or stop the run. Nothing was changed.") from exceeded
        names = " and ".join(exceeded.reached).replace("_", " ")
        raise InvalidArguments(f"Add {names} too: that limit is reached. Nothing was changed.") from exceeded
    step = BudgetRaise(
        pause_id=pause_id,
        add=add,
        without_usd=without_usd and before.budget.usd is not None,
        decided_by=decided_by,
        at=utc_now(),
        steps=before.usage.steps,
    )
    # Changed before the commit: a second answer that comes meanwhile finds the first one.
    run.change(paused=None, budget=budget, raises=[*before.raises, step])

    def work(commit: Commit) -> None:
        trail.record_raise(commit.sql, run.view, step)
        run.save(commit)

    try:
        await run.commit(work)
    except LogUnavailable:
        run.change(paused=pause, budget=before.budget, raises=before.raises)
        raise
    run.meter.go_on()
    run.person.asked.resolve(pause_id, None)


async def leave(run: ActiveRun, decided_by: str | None) -> None:
    """Whoever asks for something new has said no to more: a paused run ends."""

    def noted(commit: Commit) -> None:
        trail.record_message(
            commit.sql,
            conversation_id=run.view.conversation_id,
            run_id=run.view.run_id,
            tool_call_ids=(),
            decided_by=decided_by,
        )

    await give_up(run, noted)


async def give_up(run: ActiveRun, noted: Callable[[Commit], None] | None = None) -> None:
    """End a paused run, because nobody answered. `noted` is for who did, in another way."""
    pause = run.view.paused
    if pause is None:
        return
    try:
        _check(run, run.view.budget, pause.seconds)
    except BudgetExceeded as exceeded:
        await run.fail("BUDGET_EXCEEDED", str(exceeded), noted)
    run.person.asked.resolve(pause.pause_id, None)


def refused(run: RunView, pause_id: str) -> AlreadyDecided:
    """Why nothing is added at this pause; with the answer that it got, where it got one."""
    first: dict[str, Any] = {"run_id": run.run_id, "pause_id": pause_id}
    for given in run.raises:
        if given.pause_id == pause_id:
            said = f"Already decided: budget raised by {given.decided_by or 'a person'}, {given.at}. Nothing was added."
            return AlreadyDecided(said, first | {"raised": given.model_dump(mode="json", exclude_none=True)})
    return AlreadyDecided("The run is paused anew." if run.paused else "This run is not paused.", first)
