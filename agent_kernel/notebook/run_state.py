"""`RunState`: one run of an agent, as this kernel and its hosts keep it. What the user holds is `handle.Run`."""

import asyncio
import contextlib
import dataclasses
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Literal, Protocol, Self

from agent_kernel.approvals.scripted import ScriptedDecision
from agent_kernel.notebook.execution.interrupts import AwaitInterrupted, Notice, RunInterrupted
from agent_kernel.notebook.kernel.cell_requests import CellRequest
from agent_kernel.notebook.kernel.state import KernelState
from agent_kernel.protocol.kernel import RunDeclaration, RunEnd, failed_run
from agent_kernel.protocol.kernel_events import WaitingRun
from agent_kernel.protocol.views import ModelsView, RunView, UsageReport
from agent_kernel.protocol.vocabulary import StopCause
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.tools.function import Tool

Status = Literal["running", "complete", "cancelled", "error"]

STOP_SECONDS = 5.0
"""How long a cell whose wait was interrupted waits for the end of the run, whose record it shows."""


class Host(Protocol):
    """Where the run's runtime is: at the server, or in this process."""

    @property
    def blocks(self) -> bool:
        """Whether `%%agent` holds its cell also without `--wait`."""
        ...

    def begin(self, run: "RunState") -> None:
        """Start the run. Raises `ConfigurationError`."""
        ...

    def cancel(self, run: "RunState", cause: StopCause) -> None: ...

    def list_models(self) -> "Future[ModelsView]":
        """What the runtime's endpoints offer. Asked for and come at once or later, or never."""
        ...

    def show_here(self, run: "RunState") -> bool:
        """Show a run's cards in the cell that is being run as well. False where there are none."""
        ...

    def waiting(self) -> Sequence[WaitingRun]:
        """The open runs of this kernel, and what of them waits for a person. Raises `ServerSilent`."""
        ...

    def ended(self, end: RunEnd) -> None:
        """Show the record in place of the live cards, or leave them where the run can be tried again. In any thread."""
        ...

    def goes_on(self, run: "RunState") -> None:
        """A run that had ended is tried again. Called in any thread."""
        ...

    def settled(self, run: "RunState", end: RunEnd) -> None:
        """The main thread has waited for the end; where no cards were shown, the record is shown now."""
        ...

    def undo(self, approval_id: str) -> None:
        """Put back the file that a call replaced. Raises `AgentKernelError` where it is not as the call left it."""
        ...

    def remove_rule(self, conversation_id: str, rule_id: str) -> None:
        """Take a saved rule that covers a conversation out of force. Raises `AgentKernelError`."""
        ...

    def usage(self, days: int) -> UsageReport:
        """What was spent today and on the days before it, so many in all. Raises `ServerSilent`."""
        ...


class RunState:
    """Hosts change it, in any thread; `handle.Run` shows it to the user, on the main one."""

    def __init__(
        self,
        kernel_state: KernelState,
        host: Host,
        spec: RunSpec,
        conversation_id: str,
        tools: tuple[Tool, ...],
        scripted: tuple[ScriptedDecision, ...] = (),
        model: Any = None,
        cell: CellRequest | None = None,
    ) -> None:
        """`cell` is the request to run a cell in which it was started, where the front end says which cell."""
        self.run_id = spec.run_id
        self.number = kernel_state.cell_number
        """Of the cell that started it, as in `[2]`."""
        self.conversation_id = conversation_id
        self.prompt = spec.prompt
        self.tools = tools
        self.spec = spec
        self.scripted = scripted
        self.model = model
        """A name, an object, or `None`, as the agent has it."""
        self.cell = cell
        self.stop_cause: StopCause | None = None
        """Set once this kernel has asked for the run's end: it may not have begun by then."""
        self.heard = threading.Event()
        """Set when the server has asked for the declaration."""
        self._workshop = kernel_state
        self.host = host
        self._lock = threading.Lock()
        self._view: RunView | None = None
        self._end: RunEnd | None = None
        self._done = threading.Event()
        self._listeners: set[Callable[[], None]] = set()

    @property
    def status(self) -> Status:
        """It is "running" also while the run waits for an earlier one of its conversation, or for an approval."""
        if self._end is not None and self._end.run.status != "queued":
            return self._end.run.status
        return "running"

    @property
    def done(self) -> bool:
        return self._done.is_set()

    @property
    def blocks(self) -> bool:
        """Whether `%%agent` holds its cell for this run also without `--wait`."""
        return self.host.blocks

    @property
    def end(self) -> RunEnd | None:
        return self._end

    def show_here(self) -> bool:
        """Show the run's cards in this cell, too. False where it has none."""
        return self.host.show_here(self)

    @property
    def view(self) -> RunView | None:
        """The run as the runtime last told of it; `None` where it has not yet."""
        return self._view

    def stop(self, cause: StopCause) -> None:
        """Have the run stopped. For any thread; of two reasons the first counts."""
        with self._lock:
            if self._end is not None or self.stop_cause is not None:
                return
            if cause != "cell_deleted":  # the cell may only have been moved, which the runtime finds out
                self.stop_cause = cause
        self.host.cancel(self, cause)

    def wait(self, timeout: float | None = None) -> Self:
        """Hold this thread until the run ends; on the main thread, run its calls here.

        `timeout` is in seconds. Raises `TimeoutError`, which leaves the run going. An interrupt stops it.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            interrupted = self._hold(deadline)
        except KeyboardInterrupt:
            self.end_interrupted()
            interrupted = True
        except TimeoutError:
            raise TimeoutError(f"The run did not end within {timeout:g} s. It goes on.") from None
        self._settle()
        if interrupted:
            raise RunInterrupted
        return self

    def end_interrupted(self) -> None:
        """Stop the run for an interrupt of its cell, and see its end."""
        self.stop("interrupted")
        with contextlib.suppress(KeyboardInterrupt, TimeoutError):  # who interrupts again waits no longer
            self._hold(time.monotonic() + STOP_SECONDS)
        self._settle()

    def _hold(self, deadline: float | None) -> bool:
        """Whether an interrupt has stopped the run in one of its calls. Raises `TimeoutError`."""
        interrupted = False
        polled = self._workshop.polling.waiting()
        with polled as ear, ear.wake() as wake, self._listening(wake.set), _interruptible():
            while not self.done:
                wake.clear()
                ear.hear()
                if self._workshop.executor.run_next():
                    interrupted = interrupted or self.stop_cause == "interrupted"
                    continue
                if self._done.is_set():
                    break
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError
                wake.wait(left)
        return interrupted

    def __await__(self) -> Generator[Any, None, Self]:
        return self._wait_async().__await__()

    async def _wait_async(self) -> Self:
        notice = Notice(passes_on=True)
        with notice.taken():
            try:
                interrupted = await self._hold_async()
            except asyncio.CancelledError:
                if not notice.interrupted:
                    raise
                interrupted = True
                self.stop("interrupted")
                with contextlib.suppress(asyncio.CancelledError, TimeoutError):
                    async with asyncio.timeout(STOP_SECONDS):
                        await self._hold_async()
        self._settle()
        if interrupted:
            raise AwaitInterrupted
        return self

    async def _hold_async(self) -> bool:
        """See `_hold`."""
        interrupted = False
        loop = asyncio.get_running_loop()
        wake = asyncio.Event()
        listening = self._listening(lambda: loop.call_soon_threadsafe(wake.set))
        with listening, self._workshop.polling.waiting() as ear:
            while not self.done:
                wake.clear()
                ear.hear()
                if await self._workshop.executor.run_next_async():
                    interrupted = interrupted or self.stop_cause == "interrupted"
                elif not self.done:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(ear.seconds):
                            await wake.wait()
        return interrupted

    def _settle(self) -> None:
        if self._end is not None and threading.current_thread() is threading.main_thread():
            self.host.settled(self, self._end)

    @contextlib.contextmanager
    def _listening(self, listener: Callable[[], Any]) -> Iterator[None]:
        with self._lock:
            self._listeners.add(listener)
        try:
            with self._workshop.mailbox.listening(listener):
                yield
        finally:
            with self._lock:
                self._listeners.discard(listener)

    def declaration(self) -> RunDeclaration:
        """The run as the server asks for it."""
        spec = self.spec
        return RunDeclaration(
            run_id=spec.run_id,
            conversation_id=self.conversation_id,
            prompt=spec.prompt,
            model=spec.model,
            effort=spec.effort,
            policy=spec.policy,
            rules=spec.rules,
            system=spec.system,
            budget=spec.budget,
            conversation_budget=spec.conversation_budget,
            tools=spec.tools,
            widget_model_id=spec.widget_model_id,
            replaces=spec.replaces,
            continues=spec.continues,
            cell_id=spec.cell_id,
            cells_before=self._workshop.cells.before(self.cell),
            prompt_in_cell=spec.prompt_in_cell,
            stop=self.stop_cause,
        )

    def update(self, view: RunView) -> None:
        """The runtime says how the run stands."""
        self.heard.set()
        self._view = view

    def shown_by(self, widget_model_id: str, *, prompt_in_cell: bool) -> None:
        """By the widget's id the record finds its place in the saved notebook."""
        self.spec = dataclasses.replace(self.spec, widget_model_id=widget_model_id, prompt_in_cell=prompt_in_cell)

    def fail(self, message: str) -> None:
        """End a run that never reached a runtime."""
        self.finish(failed_run(self.declaration(), message))

    def finish(self, end: RunEnd) -> None:
        """The runtime says how the run ended. A repeat changes nothing."""
        with self._lock:
            if self._end is not None:
                return
            self._end, self._view = end, end.run
        try:
            self.host.ended(end)
        finally:
            with self._lock:
                self._done.set()
                for listener in self._listeners:
                    listener()

    def go_on(self) -> None:
        """The runtime says that the run goes on, though the model had failed."""
        with self._lock:
            self._end = self.stop_cause = None
            self._done.clear()
        self.host.goes_on(self)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """In an async cell ipykernel's handler only sets a flag, which a thread that waits never reads."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
