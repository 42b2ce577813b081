"""Watches an event loop from a thread of its own, and says where it stood still.

What counts is not the clock: on a busy machine everything waits now and then. A loop stands still when it answers
nothing while its own thread uses the processor for longer than `MOST_SECONDS`, or other threads of its process, which
may hold Python's lock, for much longer. A garbage collection does not count the objects of earlier tests: a million of
them take half a second, on whichever thread it happens to run.
"""

import asyncio
import gc
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

MOST_SECONDS = 0.25
MOST_BESIDE = 1.0
LOOK_SECONDS = 0.02


@dataclass
class Watch:
    stalls: list[str] = field(default_factory=list)
    """Each with the stack of the loop's thread at the time."""

    def check(self) -> None:
        assert not self.stalls, "\n\n".join(self.stalls)


@contextmanager
def watched(loop: asyncio.AbstractEventLoop) -> Iterator[Watch]:
    """Watch a loop that runs on this thread."""
    watch = Watch()
    over = threading.Event()
    thread_id = threading.get_ident()
    thread = threading.Thread(target=_look, args=(loop, thread_id, over, watch), name="loop watchdog", daemon=True)
    gc.freeze()
    thread.start()
    try:
        yield watch
    finally:
        over.set()
        thread.join()
        gc.unfreeze()


def _look(loop: asyncio.AbstractEventLoop, thread_id: int, over: threading.Event, watch: Watch) -> None:
    clock = time.pthread_getcpuclockid(thread_id)
    while not over.wait(LOOK_SECONDS):
        answered = threading.Event()
        began, all_began = time.clock_gettime(clock), time.process_time()
        try:
            loop.call_soon_threadsafe(answered.set)
        except RuntimeError:  # it is closed
            return
        stack = ""
        while not answered.wait(LOOK_SECONDS) and not over.is_set() and loop.is_running():
            used, all_used = time.clock_gettime(clock) - began, time.process_time() - all_began
            if not stack and (used > MOST_SECONDS or all_used > MOST_BESIDE):
                frame = sys._current_frames().get(thread_id)
                stack = "".join(traceback.format_stack(frame, limit=14)) if frame is not None else "(no stack)"
        if stack:
            used, all_used = time.clock_gettime(clock) - began, time.process_time() - all_began
            watch.stalls.append(
                f"The event loop stood still for {used:.2f} s ({all_used:.2f} with other threads):\n{stack}"
            )
