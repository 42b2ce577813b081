"""Costs of turns in US dollars, by the table in the package `genai-prices`. Nothing is fetched from the network.

The price depends on the endpoint: the same model costs nothing on the user's own machine. Nothing here raises; if the
table can't be used, prices are unknown.
"""

import functools
import ipaddress
import logging
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from urllib.parse import SplitResult, urlsplit

from agent_kernel.models.base import Model, ModelFacts, TokenUsage, asks_nobody, facts_of
from agent_kernel.models.usage import MOST_DOLLARS

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TurnCost:
    usd: Decimal | None
    """`None` if no price is known, or if there is none, as for local models."""
    partial: bool = False
    """Whether the turn may have cost more than `usd`."""
    reported: bool = False
    """Whether `usd` is the service's own figure."""


NOTHING = TurnCost(Decimal(0))
NO_PRICE = TurnCost(None)
UNKNOWN = TurnCost(None, partial=True)


@functools.cache
def load() -> bool:
    """Load the table, which takes a fifth of a second and 4 MB: call it in a thread. Returns whether it worked."""
    try:
        import genai_prices.data  # noqa: F401 -- loaded ahead of its use
    except Exception:  # another project's data: a run goes on without its price
        logger.warning("The table of prices can't be read, so no cost is shown.", exc_info=True)
        return False
    return True


def is_loaded() -> bool:
    """Whether the table is loaded, so that a lookup does not block."""
    return load.cache_info().currsize > 0 and load()


@functools.lru_cache
def listed_context(wire_name: str, base_url: str) -> int | None:
    """A model's context size in tokens at its service, by the table, which is loaded if necessary."""
    try:
        from genai_prices.data_snapshot import get_snapshot

        _, model = get_snapshot().find_provider_model(wire_name, None, None, base_url)
    except Exception:  # the table is somebody else's code: without a price rather than without an answer
        logger.debug("No context could be made out for %s.", wire_name, exc_info=True)
        return None
    return model.context_window


def wants_loading(model: Model) -> bool:
    """Whether pricing the model's turns would have to load the table first."""
    return load.cache_info().currsize == 0 and may_cost(model) and facts_of(model).base_url is not None


def price_turn(model: Model, usage: TokenUsage) -> TurnCost:
    """The cost of a turn. Loads the table if necessary."""
    if asks_nobody(model):
        return NOTHING
    facts = facts_of(model)
    if usage.cost is not None:
        return TurnCost(usage.cost, reported=True)
    if _runs_here(facts):
        return NO_PRICE
    if facts.base_url is None or usage == TokenUsage():  # a Python object, or a service that did not report usage
        return UNKNOWN
    try:
        return _look_up(facts.base_url, facts.wire_name, usage)
    except Exception:  # the table is somebody else's code: without a price rather than without an answer
        logger.debug("No price could be made out for %s.", facts.wire_name, exc_info=True)
        return UNKNOWN


def is_priced(model: Model) -> bool:
    """Whether the cost of the model's turns can be known: its service says it, or it has a known price, or none."""
    return facts_of(model).reports_cost or not price_turn(model, TokenUsage(input_tokens=1, output_tokens=1)).partial


def may_cost(model: Model) -> bool:
    """Whether the model's answers may cost money. A Python object may use any service, so it may."""
    return not asks_nobody(model) and not _runs_here(facts_of(model))


def _runs_here(facts: ModelFacts) -> bool:
    """Whether it is known that the model runs on this machine, where tokens cost nothing. An address says too little:
    behind one of this machine or of a private network there may be a proxy of a paid service."""
    host = (_split(facts.base_url).hostname or "").rstrip(".")
    with suppress(ValueError):
        return facts.server is not None and ipaddress.ip_address(host).is_loopback
    return facts.server is not None and (host == "localhost" or host.endswith(".localhost"))


def host_of(base_url: str | None) -> str:
    """The host of an endpoint for statistics; empty for a model without a service."""
    return _split(base_url).netloc.rpartition("@")[2].lower()


def _split(base_url: str | None) -> SplitResult:
    with suppress(ValueError):
        return urlsplit(base_url or "")
    return urlsplit("")


def _look_up(base_url: str, wire_name: str, usage: TokenUsage) -> TurnCost:
    """Look up the price. Raises what `genai_prices` raises: for what it does not have, and for a faulty table."""
    from genai_prices import Usage, calc_price

    parts = urlsplit(base_url)
    address = f"{parts.scheme}://{parts.hostname}{parts.path}"  # in lower case, and without a port
    taken, partial = usage.input_tokens, False
    prices = calc_price(Usage(), wire_name, provider_api_url=address).model_price
    if prices.input_mtok is None or prices.output_mtok is None:
        return UNKNOWN
    cached = usage.cached_tokens
    if cached and prices.cache_read_mtok is None:  # not priced: the price of other input might be too high for it
        taken, cached, partial = taken - cached, 0, True
    partial = partial or bool(usage.cache_write_tokens and prices.cache_write_mtok is None)
    counted = Usage(
        input_tokens=taken,
        output_tokens=usage.output_tokens,
        cache_read_tokens=cached,
        cache_write_tokens=usage.cache_write_tokens,
    )
    usd = calc_price(counted, wire_name, provider_api_url=address).total_price
    if not (usd.is_finite() and 0 <= usd <= MOST_DOLLARS):
        raise ValueError(f"the table makes it {usd}")
    return TurnCost(usd, partial)
