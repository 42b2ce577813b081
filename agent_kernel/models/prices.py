"""What a turn costs, in US dollars, by the table of `genai-prices`, which is part of that package: no price is ever
looked up in the network. The price is the endpoint's: the same model costs nothing on the user's own machine.

Nothing here raises: where the table is of no use, the price is not known.
"""

import functools
import ipaddress
import logging
from dataclasses import dataclass
from decimal import Decimal
from urllib.parse import urlsplit

from agent_kernel.models.base import Model, TokenUsage, facts_of

logger = logging.getLogger(__name__)

_MOST_DOLLARS = 1_000_000
"""More than a turn can cost; a larger price is a fault of the table."""


@dataclass(frozen=True, slots=True)
class TurnCost:
    usd: Decimal | None
    """`None` where no price is known, and where there is none: a local model's."""
    partial: bool = False
    """Whether the turn may have cost more than that."""


NOTHING = TurnCost(Decimal(0))
NO_PRICE = TurnCost(None)
UNKNOWN = TurnCost(None, partial=True)


@functools.cache
def load() -> bool:
    """Read the table, a fifth of a second of work and 4 MB; whether it could be read. For a thread."""
    try:
        import genai_prices.data  # noqa: F401
    except Exception:
        logger.warning("The table of prices can't be read, so no cost is shown.", exc_info=True)
        return False
    return True


def is_loaded() -> bool:
    """Whether the table was read, so that a look into it holds nobody up."""
    return load.cache_info().currsize > 0 and load()


@functools.lru_cache(maxsize=256)
def listed_context(wire_name: str, base_url: str) -> int | None:
    """How many tokens a model takes, as the table has it for its service. Reads the table where that was not done."""
    try:
        from genai_prices.data_snapshot import get_snapshot

        _, model = get_snapshot().find_provider_model(wire_name, None, None, base_url)
    except LookupError:
        return None
    except Exception:
        logger.debug("No context could be made out for %s.", wire_name, exc_info=True)
        return None
    return model.context_window


def wants_loading(model: Model) -> bool:
    """Whether the price of a model's turns is looked up in a table that has not been read yet."""
    return load.cache_info().currsize == 0 and may_cost(model) and facts_of(model).base_url is not None


def price_turn(model: Model, usage: TokenUsage) -> TurnCost:
    """What a turn of a model cost. Reads the table where that has not been done."""
    if model.recorded:
        return NOTHING
    facts = facts_of(model)
    if facts.base_url is not None and is_local(facts.base_url):
        return NO_PRICE
    if facts.base_url is None or usage == TokenUsage():  # an object of this process; or its service did not say
        return UNKNOWN
    try:
        return _look_up(facts.base_url, facts.wire_name, usage)
    except LookupError:
        return UNKNOWN
    except Exception:
        logger.debug("No price could be made out for %s.", facts.wire_name, exc_info=True)
        return UNKNOWN


def is_priced(model: Model) -> bool:
    """Whether what a model's turns cost can be known: its price is, or there is none."""
    return not price_turn(model, TokenUsage(input_tokens=1, output_tokens=1)).partial


def may_cost(model: Model) -> bool:
    """Whether somebody may be paid for what a model says. An object of this process may ask any service."""
    base_url = facts_of(model).base_url
    return not model.recorded and (base_url is None or not is_local(base_url))


@functools.lru_cache(maxsize=64)
def is_local(base_url: str) -> bool:
    """Whether an address is this machine's or a private network's, where nobody is paid by the token."""
    host = _parts(base_url)[0].rstrip(".")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        if not host:
            return False
        return "." not in host or host == "host.docker.internal" or host.endswith((".localhost", ".local"))
    return address.is_private or address.is_loopback or address.is_link_local


def host_of(base_url: str | None) -> str:
    """What an endpoint is called in statistics; empty for a model without a service."""
    host, port = _parts(base_url or "")
    return host if port is None else f"{host}:{port}"


def _parts(base_url: str) -> tuple[str, int | None]:
    """The host and the port of an address."""
    try:
        parts = urlsplit(base_url)
        return parts.hostname or "", parts.port
    except ValueError:
        return "", None


def _look_up(base_url: str, wire_name: str, usage: TokenUsage) -> TurnCost:
    """Raises `LookupError`, and whatever a faulty table makes `genai_prices` raise."""
    from genai_prices import Usage, calc_price

    parts = urlsplit(base_url)
    address = f"{parts.scheme}://{parts.hostname}{parts.path}"  # in lower case, and without a port
    taken, partial = usage.input_tokens, False
    prices = calc_price(Usage(), wire_name, provider_api_url=address).model_price
    if prices.input_mtok is None or prices.output_mtok is None:
        return UNKNOWN
    cached = usage.cached_tokens
    if cached and prices.cache_read_mtok is None:  # left out: with the price of other input it might be too much
        taken, cached, partial = taken - cached, 0, True
    partial = partial or bool(usage.cache_write_tokens and prices.cache_write_mtok is None)
    counted = Usage(
        input_tokens=taken,
        output_tokens=usage.output_tokens,
        cache_read_tokens=cached,
        cache_write_tokens=usage.cache_write_tokens,
    )
    usd = calc_price(counted, wire_name, provider_api_url=address).total_price
    if not (usd.is_finite() and 0 <= usd <= _MOST_DOLLARS):
        raise ValueError(f"the table makes it {usd}")
    return TurnCost(usd, partial)
