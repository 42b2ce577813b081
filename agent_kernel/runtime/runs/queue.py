"""The queue of a conversation's runs: the active one, and those that wait."""

import asyncio
import itertools
import logging
from dataclasses import dataclass
from functools import partial

from agent_kernel.errors import AgentKernelError, LogUnavailable
from agent_kernel.log.runs import ConversationRow
from agent_kernel.protocol.run_results import RunResult
from agent_kernel.protocol.views import ErrorView, RunView
from agent_kernel.runtime.clients.feed import Feed
from agent_kernel.runtime.runs import lifecycle, recovery
from agent_kernel.runtime.runs.specs import LastRun
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.runtime.state.active_run import ActiveRun, ConversationResources, Resources
from agent_kernel.runtime.state.transcript import SeenCells
from agent_kernel.runtime.turns.tool_messages import read_result
from agent_kernel.tools.executor import ToolExecutor

logger = logging.getLogger(__name__)


class RunHandle:
    """A started run. `wait` may be called any number of times."""

    def __init__(self, run_id: str, result: asyncio.Future[RunResult]) -> None:
        self.run_id = run_id
        self._result = result

    async def wait(self) -> RunResult:
        return await asyncio.shield(self._result)


@dataclass(frozen=True, slots=True)
class QueuedRun:
    spec: RunSpec
    view: RunView
    executor: ToolExecutor | None
    result: asyncio.Future[RunResult]
    begun: asyncio.Event
    """Set when the run is active, or could not begin."""
    number: int = 0
    """Numbers the runs in the order of their requests."""

    @property
    def continued(self) -> bool:
        """Whether the run had begun before: in an earlier process, or before the model failed."""
        return self.view.status == "running"


class RunQueue:
    """For one event loop. Its worker is a task of the host while there is anything to do."""

    def __init__(self, resources: Resources, row: ConversationRow, feed: Feed) -> None:
        self._resources = resources
        home = row.client_home
        seen = SeenCells() if home is None else resources.seen_by_clients.setdefault(home, SeenCells())
        self._shared = ConversationResources(resources, row, feed.shown, seen_cells=seen)
        self.outcomes = self._shared.outcomes
        self._row = row
        self._feed = feed
        self._waiting: list[QueuedRun] = []
        self._numbers = itertools.count(1)
        self._current: QueuedRun | None = None
        self._worker: asyncio.Task[None] | None = None
        self.active: ActiveRun | None = None
        self.last: LastRun | None = None
        """The active run or the last one, for prompts that come without a specification."""

    @property
    def is_busy(self) -> bool:
        return self._worker is not None and not self._worker.done()

    @property
    def is_paused(self) -> bool:
        """Whether the active run as a whole waits for a person: see `ActiveRun.is_paused`."""
        if self.active is not None:
            return self.active.is_paused
        beginning = self._current or next(iter(self._waiting), None)
        return beginning is not None and beginning.view.paused is not None

    def add(self, spec: RunSpec, view: RunView, executor: ToolExecutor | None) -> RunHandle:
        result: asyncio.Future[RunResult] = asyncio.get_running_loop().create_future()
        number = next(self._numbers)
        self._waiting.append(QueuedRun(spec, view, executor, result, asyncio.Event(), number=number))
        self._start_worker()
        return RunHandle(spec.run_id, result)

    def waiting_runs(self) -> list[QueuedRun]:
        return list(self._waiting)

    def take_out(self, run_id: str) -> QueuedRun | None:
        """Take a run that has not begun out of the queue."""
        for queued in self._waiting:
            if queued.spec.run_id == run_id and not queued.continued:
                self._waiting.remove(queued)
                return queued
        return None

    def put_back(self, queued: QueuedRun) -> None:
        """Put a run back that was taken out, before those that were requested later."""
        earlier = [one for one in self._waiting if one.number < queued.number]
        self._waiting.insert(len(earlier), queued)
        self._start_worker()

    async def begun_run(self) -> ActiveRun | None:
        """The active run. One that is beginning, or that an earlier process left open, is waited for until it is in
        memory, or could not begin."""
        first = next(iter(self._waiting), None)
        beginning = self._current or (first if first is not None and first.continued else None)
        if self.active is None and beginning is not None:
            await beginning.begun.wait()
        return self.active

    async def until_idle(self) -> None:
        """Wait until no run is left."""
        if self._worker is not None:
            await asyncio.wait({self._worker})

    def _start_worker(self) -> None:
        if not self.is_busy:
            self._worker = self._resources.tasks.spawn(self._work(), f"conversation {self._row.conversation_id}")

    async def _work(self) -> None:
        while self._waiting:
            queued = self._waiting.pop(0)
            self._current, self.last = queued, LastRun(queued.spec, queued.executor)
            try:
                result = await self._run(queued)
            finally:
                self._current = None
                queued.begun.set()
            if not queued.result.done():
                queued.result.set_result(result)

    async def _run(self, queued: QueuedRun) -> RunResult:
        begin = recovery.resume if queued.continued else lifecycle.begin
        try:
            run = await begin(self._shared, queued.spec, queued.view, queued.executor)
        except AgentKernelError as error:
            return await self._end_failed_start(queued, ErrorView(code="LLM_ERROR", message=str(error)))
        except Exception:  # a fault of ours or of a library: those who wait for the run learn of it
            logger.exception("The run %s could not begin", queued.view.run_id)
            broken = ErrorView(code="INTERNAL_ERROR", message=lifecycle.BROKEN)
            return await self._end_failed_start(queued, broken)
        self.active = run
        self._resources.active.add(run)
        queued.begun.set()
        try:
            return await lifecycle.carry_out(self._resources, run, partial(self._end_unwritten, queued))
        finally:
            self.active = None
            self._resources.active.discard(run)

    async def _end_failed_start(self, queued: QueuedRun, error: ErrorView) -> RunResult:
        resources = self._resources
        queued.begun.set()

        async def write() -> RunResult:
            if queued.continued:
                return await recovery.close(
                    resources.log, self._row, queued.view, resources.settings, error.message, code=error.code
                )
            return await lifecycle.end_failed_start(resources.log, self._row, queued.spec, queued.view, error)

        return await lifecycle.until_written(write, partial(self._end_unwritten, queued))

    async def _end_unwritten(self, queued: QueuedRun, reason: str) -> None:
        """The run has ended, but the log can't be written: inform the clients and the waiters without it."""
        self._feed.announce("INTERNAL_ERROR", f"{reason} The run is stopped.")
        if queued.result.done():
            return
        ended = lifecycle.failed(queued.view, ErrorView(code="INTERNAL_ERROR", message=reason))
        try:
            result = await self._resources.log.read(lambda sql: read_result(sql, self._row.number, ended))
        except LogUnavailable:  # it can't be read either
            result = RunResult(ended, "", [], [])
        queued.result.set_result(result)
