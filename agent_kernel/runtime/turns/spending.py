"""Adds each turn's tokens and price to the run, and writes them as a row of the totals."""

import asyncio
from collections.abc import Callable
from decimal import Decimal

from agent_kernel.log.runs import save_spent
from agent_kernel.log.turns import COST_DIGITS, Turn, add_turn
from agent_kernel.models import prices
from agent_kernel.models.base import Model, TokenUsage, facts_of
from agent_kernel.models.prices import TurnCost
from agent_kernel.protocol.events import UsageEvent
from agent_kernel.protocol.views import Usage
from agent_kernel.runtime.state.commits import Commit
from agent_kernel.runtime.state.run import ActiveRun


async def spend(
    run: ActiveRun, reported: TokenUsage, calls: int, *, steps: int = 1, counted: TokenUsage | None = None
) -> Callable[[Commit], None]:
    """Count a turn of the run's model. Returns the function that writes it in the commit of the turn.

    `steps` is 0 for a turn that the run does not show. `counted` has estimates for what the service did not report;
    prices are never computed from estimates."""
    await ready(run)
    model = run.model
    tokens = counted or reported
    cost = prices.price_turn(model, reported)
    usage = _added(run.view.usage, tokens, cost, calls, steps)
    estimated = usage.estimated or tokens != reported
    run.change(usage=usage.model_copy(update={"estimated": estimated, "seconds": run.meter.rounded}))
    turn = None if model.recorded else _row(model, tokens, cost)  # a cassette costs nothing

    def write(commit: Commit) -> None:
        save_spent(commit.sql, run.view)
        if turn is not None:
            add_turn(commit.sql, commit.number, turn)
        commit.emit(UsageEvent(run_id=run.run_id, usage=run.view.usage))

    return write


async def ready(run: ActiveRun) -> None:
    """Load the table of prices in a thread, where it is needed."""
    if prices.wants_loading(run.model):
        await asyncio.to_thread(prices.load)


def note_unknown_cost(run: ActiveRun) -> None:
    """A turn ended before its service reported the usage: mark the cost as partial where it may have cost something."""
    if prices.price_turn(run.model, TokenUsage()).partial:
        run.change(usage=run.view.usage.model_copy(update={"cost_is_partial": True}))


def _row(model: Model, tokens: TokenUsage, cost: TurnCost) -> Turn:
    return Turn(
        model=model.name,
        host=prices.host_of(facts_of(model).base_url),
        input_tokens=tokens.input_tokens,
        cached_tokens=tokens.cached_tokens,
        cache_write_tokens=tokens.cache_write_tokens,
        output_tokens=tokens.output_tokens,
        reasoning_tokens=tokens.reasoning_tokens,
        usd=cost.usd,
        partial=cost.partial,
    )


def _added(usage: Usage, tokens: TokenUsage, cost: TurnCost, calls: int, steps: int) -> Usage:
    return Usage(
        input_tokens=usage.input_tokens + tokens.input_tokens,
        output_tokens=usage.output_tokens + tokens.output_tokens,
        total_tokens=usage.total_tokens + tokens.input_tokens + tokens.output_tokens,
        tool_calls=usage.tool_calls + calls,
        steps=usage.steps + steps,
        cached_tokens=usage.cached_tokens + tokens.cached_tokens,
        cache_write_tokens=usage.cache_write_tokens + tokens.cache_write_tokens,
        reasoning_tokens=usage.reasoning_tokens + tokens.reasoning_tokens,
        cost=_sum(usage.cost, cost.usd),
        cost_is_partial=usage.cost_is_partial or cost.partial,
        estimated=usage.estimated,
    )


def _sum(spent: float | None, more: Decimal | None) -> float | None:
    """The sum, exact: the shortest decimal of a float is the sum that it was made from."""
    if more is None:
        return spent
    return float(Decimal(repr(spent or 0.0)) + more.quantize(Decimal(1).scaleb(-COST_DIGITS)))
