"""Processor time that a piece of work may take, told so that a slow or busy machine does not change it.

A thread that shares its core has a third of its speed for seconds at a time, also in processor time. So the work is
measured beside a fixed piece of work, and the least of a few attempts counts. Work whose time grows with the square of
a hostile length takes minutes in each of them.
"""

import time
from collections.abc import Callable
from typing import TypeVar

YARDSTICK_SECONDS = 0.035
"""What the yardstick takes on the machine on which the limits were chosen; a faster one counts as that one."""
ATTEMPTS = 4
Result = TypeVar("Result")


def bounded(seconds: float, work: Callable[[], Result]) -> Result:
    """Do the work, and fail if it takes more processor time of this process in each of a few attempts."""
    taken: list[str] = []
    for _ in range(ATTEMPTS):
        before = _yardstick()
        began = time.process_time()
        result = work()
        used = time.process_time() - began
        slowness = max(1.0, (before + _yardstick()) / 2 / YARDSTICK_SECONDS)
        if used < seconds * slowness:
            return result
        taken.append(f"{used:.2f} s where all takes {slowness:.1f} times as long")
    raise AssertionError(f"More than {seconds} s of processor time: {', '.join(taken)}")


def _yardstick() -> float:
    began = time.process_time()
    sum(len(str(number)) for number in range(500_000))
    return time.process_time() - began
