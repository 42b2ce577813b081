"""How often a model service is asked, why again, and when."""

import asyncio
import email.utils
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from agent_kernel.models.base import Clock, Delay
from agent_kernel.models.service_faults import Asked, Fault, cause_of
from agent_kernel.protocol.vocabulary import DelayKind

_OVERLOADED = frozenset({503, 529})


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential back-off with up to a quarter of jitter. All times are in seconds."""

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
        with suppress(KeyError, ValueError):
            seconds = float(headers[header]) / unit
            return seconds if seconds >= 0 else None  # NaN compares false
    with suppress(ValueError):
        date = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
        return max(0.0, date.timestamp() - now)
    return None


class Tries:
    """The tries of one request until there is an answer."""

    def __init__(self, policy: RetryPolicy, clock: Clock) -> None:
        self._policy = policy
        self._clock = clock
        self._loading_since: float | None = None
        self._began = clock.now()
        self.count = 0
        """The tries so far. Those of a server that is loading its model, and before a person's hurry, are none."""

    def begin(self) -> None:
        self.count += 1
        self._began = self._clock.now()

    def note_end(self, fault: Fault) -> None:
        fault.took = self._clock.now() - self._began

    def take_back(self) -> None:
        """The last one was not counted, because it was not the same request."""
        self.count -= 1

    def delay_after(self, fault: Fault, asked: Asked) -> Delay | None:
        """The pause before the next try; `None` to give up."""
        if not fault.retry:
            return None
        if fault.loading:
            self.take_back()
            return self._loading(fault)
        self._loading_since = None
        seconds = self._policy.delay(self.count, fault.retry_after)
        if seconds is None:
            return None
        kind = _kind(fault)
        cause = cause_of(fault, asked) if kind == "failed" else fault.said
        return Delay(kind, seconds, self.count + 1, self._policy.tries, cause)

    def _loading(self, fault: Fault) -> Delay | None:
        now = self._clock.now()
        self._loading_since = now if self._loading_since is None else self._loading_since
        left = self._loading_since + self._policy.loading_seconds - now
        if left <= 0:
            return None
        seconds = min(left, self._policy.loading_pause)
        return Delay("loading", seconds, self.count + 1, None, fault.said)

    async def wait(self, delay: Delay) -> None:
        """Wait until the next try, or until somebody hurries it: what a person asks for is none of the tries."""
        async with asyncio.TaskGroup() as pauses:
            sleeping = pauses.create_task(self._clock.sleep(delay.seconds), name="pause before the next try")
            hurried = pauses.create_task(delay.hurry.wait(), name="hurry of the next try")
            sleeping.add_done_callback(lambda _: hurried.cancel())
            hurried.add_done_callback(lambda _: sleeping.cancel())
        if delay.hurry.is_set() and delay.tries is not None:
            self.take_back()


def _kind(fault: Fault) -> DelayKind:
    if fault.status == 429:
        return "rate_limited"
    overloaded = fault.status in _OVERLOADED or fault.code == "overloaded_error"
    return "overloaded" if overloaded and not fault.is_slow_start else "failed"
