"""Adds each turn's tokens and price to the run, and writes them as a row of the totals."""

import asyncio
from collections.abc import Callable
from decimal import Decimal

from agent_kernel.log.measures import COST_DIGITS, Turn, add_turn
from agent_kernel.log.runs import save_run
from agent_kernel.models import prices
from agent_kernel.models.base import Model, TokenUsage, asks_nobody, facts_of
from agent_kernel.models.prices import TurnCost
from agent_kernel.models.usage import COUNTS
from agent_kernel.protocol.events import UsageEvent
from agent_kernel.protocol.views import Usage
from agent_kernel.runtime.state.active_run import ActiveRun
from agent_kernel.runtime.state.commits import Commit
from agent_kernel.runtime.state.spending import together


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
