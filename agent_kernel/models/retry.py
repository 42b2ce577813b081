"""When to ask a model's service again, and after how long.

The `openai` client retries too, but not after a stream that broke before it said anything, and its clock can't be
replaced; so its own retries are off and this is the only place that decides.
"""

import asyncio
import email.utils
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Time, replaceable in tests (`agent_kernel.testing.VirtualClock`)."""

    def now(self) -> float:
        """Seconds since the Unix epoch."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now(self) -> float:
        return datetime.now(UTC).timestamp()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential back-off with up to a quarter of jitter; the same curve as the `openai` client's. Seconds."""

    tries: int = 4
    first_delay: float = 0.5
    longest_delay: float = 8.0
    longest_wait: float = 120.0
    """A server that asks for a longer wait than this is reported instead of waited for."""
    jitter: Callable[[], float] = random.random

    def delay(self, tried: int, retry_after: float | None) -> float | None:
        """Seconds to wait after `tried` tries, or `None` to give up."""
        if tried >= self.tries:
            return None
        if retry_after is not None and retry_after > 0:
            return retry_after if retry_after <= self.longest_wait else None
        delay = min(self.first_delay * 2.0 ** (tried - 1), self.longest_delay)
        return delay * (1 - self.jitter() / 4)


def parse_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that the server asks to wait, from `retry-after-ms` or `retry-after` (seconds or an HTTP date)."""
    for header, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        value = headers.get(header)
        if value is None:
            continue
        try:
            seconds = float(value) / unit
        except ValueError:
            continue
        return seconds if seconds >= 0 else None  # NaN compares false
    try:
        date = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    return max(0.0, date.timestamp() - now)
