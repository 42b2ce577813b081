"""The log's threads: `LogThread` writes, `ReaderThread` does long reads.

Not a `ThreadPoolExecutor`: that wakes the event loop once for the result and once more for the frames, and each wake-up
costs as much as the SQL of a small commit.
"""

import asyncio
import logging
import queue
import sqlite3
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from agent_kernel.log.opening import connect_again

logger = logging.getLogger(__name__)
T = TypeVar("T")
SWITCH_SECONDS = 0.0005
"""How long the event loop may keep the log's thread from the interpreter; Python's default is ten times that.

A loop that never rests gives the interpreter up at each of its turns, and has it back before a waiting thread is awake.
A thread that waits for longer than this in one turn makes it let go."""
BUSY_SECONDS = 0.00005
"""A turn of the event loop that takes longer leaves the log's thread too little of the interpreter."""
YIELD_SECONDS = 0.0001
"""How long the event loop sleeps after such a turn while a decision is written. Each statement of the decision releases
the interpreter and wants it back, and each time that the loop releases it for a moment, the thread's wait begins anew.
The figures are measured: docs/performance.md."""
MOST_YIELDS = 40
"""How often the event loop sleeps so, one turn after another: a slow disk must not keep it from its work."""
SLICE = 8
"""Results and frames of commits that are handed out in one turn of the event loop. Each wakes a task; a decision passes
through several turns."""
After = Callable[[], None]
"""A function to call in the event loop."""
Job = Callable[[], list[After]]
"""Work for the thread. It raises nothing."""


def share_interpreter() -> None:
    """Have the threads of this process take turns soon enough for a log beside a busy event loop. For a process that is
    the host's own."""
    sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_SECONDS))


def _nothing() -> list[After]:
    """Has the thread look for urgent jobs."""
    return []


class LogThread:
    """Does jobs in order, urgent ones first, each with one wake-up of the event loop at its end, in the same order."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str = "agent-kernel-log") -> None:
        self._loop = loop
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._urgent: deque[Job] = deque()
        """Jobs that are done before the next one of `_jobs`; each stays here until it is done."""
        self._yields = False
        """Whether `_yield_interpreter` is called in the event loop's next turn. Used there only."""
        self._due: deque[After] = deque()
        """What the event loop is still to do. Used there only."""
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def future(self) -> asyncio.Future[Any]:
        return self._loop.create_future()

    def post(self, job: Job, *, urgent: bool = False) -> None:
        """Queue a job, before the others if it is `urgent`. It is done even if the task that waits for it is
        cancelled."""
        if urgent:
            self._urgent.append(job)
            if not self._yields:
                self._yields = True
                self._loop.call_soon(self._yield_interpreter, None, MOST_YIELDS)
        self._jobs.put(job if not urgent else _nothing)

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Queue work. The future gets its result, or what it raised."""
        future: asyncio.Future[T] = self.future()
        self.post(lambda: [outcome(future, work)])
        return future

    def end(self) -> None:
        """End the thread after the jobs that are queued."""
        self._jobs.put(None)

    def _work(self) -> None:
        while self._do_next():
            pass

    def _do_next(self) -> bool:
        """In a call of its own: while the thread waits for the next job, nothing refers to the last one's objects."""
        job = self._jobs.get()
        while self._urgent:
            self.hand_out(self._urgent[0]())
            self._urgent.popleft()
        if job is None:
            return False
        self.hand_out(job())
        return not self._loop.is_closed()

    def _yield_interpreter(self, last_turn: float | None, left: int) -> None:
        """Called in each turn of the event loop while urgent jobs are queued or done and its turns are long: sleeps, up
        to `left` times. `last_turn` is the time of the last call. The first call has none and does not sleep: its turn
        is the one that queued the job, and does not tell whether the loop has other work."""
        busy = last_turn is None or time.perf_counter() - last_turn > BUSY_SECONDS
        self._yields = busy and left > 0 and bool(self._urgent)
        if not self._yields:
            return
        if last_turn is not None:
            time.sleep(YIELD_SECONDS)
            left -= 1
        self._loop.call_soon(self._yield_interpreter, time.perf_counter(), left)

    def hand_out(self, afters: list[After], first: Sequence[After] = ()) -> None:
        """Have the event loop do these: `first` in its next turn, the others after that, and after all that were handed
        out before, some in each turn. For a job that has something to hand out before its end."""
        if (afters or first) and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._receive, afters, first)

    def _receive(self, afters: list[After], first: Sequence[After]) -> None:
        for act in first:
            _do(act)
        waits = bool(self._due)
        self._due.extend(afters)
        if waits or not afters:
            return
        if first:
            # A call that starts with its decision gets to its executor in two turns: pages hear of it afterwards, and
            # still before whoever decided (`succeed`).
            self._loop.call_soon(self._do_some)
        else:
            self._do_some()

    def _do_some(self) -> None:
        for _ in range(min(SLICE, len(self._due))):
            _do(self._due.popleft())
        if self._due:
            self._loop.call_soon(self._do_some)


class ReaderThread:
    """Long reads on a thread and a connection of their own: no commit waits for them.

    A read is one transaction: it sees one state of the log, however much is written meanwhile.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, path: Path) -> None:
        """`path` is that of a log which stays open for writing as long as this is open."""
        self._path = path
        self._thread = LogThread(loop, "agent-kernel-reader")
        self._connection: sqlite3.Connection | None = None

    def run(self, work: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Queue a read. It sees all that was committed before it begins."""
        return self._thread.run(lambda: self._read(work))

    async def aclose(self) -> None:
        await self._thread.run(self._close)
        self._thread.end()

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._connection is None:
            self._connection = connect_again(self._path)
        self._connection.execute("BEGIN")
        try:
            return work(self._connection)
        finally:
            self._connection.execute("ROLLBACK")

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def _do(act: After) -> None:
    try:
        act()
    except Exception:  # one broken listener must not keep results from others
        logger.exception("Something broke on what was committed")


def outcome(future: asyncio.Future[T], work: Callable[[], T]) -> After:
    """Do the work. The function that is returned gives its result, or what it raised, to the future."""
    try:
        return partial(succeed, future, work())
    except BaseException as error:  # noqa: BLE001 -- raised again where the work was asked for
        return partial(fail, future, error)


def succeed(future: asyncio.Future[T], result: T, then: Callable[[T], None] | None = None) -> None:
    """`then` gets the result first, and what it starts two turns of the event loop before whoever waits."""
    if future.done():
        return
    if then is None:
        future.set_result(result)
    else:
        then(result)
        future.get_loop().call_soon(succeed, future, result)


def fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
