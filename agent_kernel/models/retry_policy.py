"""The retry policy for model services: when to retry, after how long, and what they ask for.

The `openai` client's own retries are off: it does not retry a stream that broke before its first token, and its clock
can't be replaced in tests.
"""

import asyncio
import email.utils
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

_READ_CHARACTERS = 10_000
"""As much of a refusal is searched for a wait."""
_IN_A_FIELD = re.compile(
    r"""(?i)\bretry_?(?:delay|after)(?:_seconds)?\\*['"]: ?\\*['"]?(\d{1,9}(?:\.\d{1,9})?)s?(?![\w.])"""
)
"""Google's `RetryInfo` (`"retryDelay": "24.5s"`), also where a proxy quotes it, and proxies' `retry_after`."""
_TIME = r"(\d{1,9}(?:\.\d{1,9})?) ?(ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hours?)(?![a-z])"
_IN_WORDS = re.compile(rf"(?i)\b(?:try again|retry) (?:in|after) (?:about )?((?:{_TIME} ?)+)")
"""OpenAI's and Groq's "Please try again in 7m12.5s", Azure's "Please retry after 26 seconds"."""
_ONE_TIME = re.compile(rf"(?i){_TIME}")


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
    """Exponential back-off with up to a quarter of jitter, as in the `openai` client. All times are in seconds."""

    tries: int = 4
    first_delay: float = 0.5
    longest_delay: float = 8.0
    longest_wait: float = 120.0
    """If a server asks for a longer wait, the request fails instead."""
    loading_seconds: float = 60.0
    """How long a server may load its model. It is asked every `loading_pause`, and these are no tries."""
    loading_pause: float = 2.0
    jitter: Callable[[], float] = random.random

    def delay(self, tried: int, retry_after: float | None) -> float | None:
        """Seconds to wait after `tried` attempts, or `None` to give up."""
        if tried >= self.tries:
            return None
        if retry_after is not None and retry_after > 0:
            return retry_after if retry_after <= self.longest_wait else None
        delay = min(self.first_delay * 2.0 ** (tried - 1), self.longest_delay)
        return delay * (1 - self.jitter() / 4)


def parse_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """The seconds to wait that the server asks for, in `retry-after-ms` or `retry-after` (seconds or an HTTP date)."""
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


def wait_in_body(body: Any) -> float | None:
    """The seconds to wait that a refusal's body asks for, in a field or in words."""
    text = str(body)[:_READ_CHARACTERS]
    if found := _IN_A_FIELD.search(text):
        return float(found[1])
    if found := _IN_WORDS.search(text):
        return sum(float(amount) * _seconds_of(unit.lower()) for amount, unit in _ONE_TIME.findall(found[1]))
    return None


def _seconds_of(unit: str) -> float:
    if unit.startswith(("ms", "milli")):
        return 0.001
    return {"s": 1.0, "m": 60.0, "h": 3600.0}[unit[0]]
