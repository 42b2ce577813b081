"""`RunState`: what this kernel keeps of one run, and `RunHost`: what it needs of the place where the run's runtime is.

The object that a user holds is `agent_kernel.notebook.run.Run`, a read-only view of a `RunState`.
"""

import threading
from typing import Any, Literal, Protocol

from agent_kernel.notebook.execution.approved_calls import Listenable
from agent_kernel.notebook.kernel.cell_requests import CellRequest
from agent_kernel.protocol.kernel import RunDeclaration, failed_run
from agent_kernel.protocol.kernel_events import AnswerT, Question
from agent_kernel.protocol.run_results import RunResult
from agent_kernel.protocol.views import RunView
from agent_kernel.protocol.vocabulary import StopCause
from agent_kernel.tools.tool import Tool

Status = Literal["running", "complete", "cancelled", "error"]


class RunHost(Protocol):
    """The way to a run's runtime: at the server (`ServedHost`), or in this process (`EmbeddedHost`)."""

    @property
    def blocks(self) -> bool:
        """Whether `%%agent` holds its cell also without `--wait`."""
        ...

    def start(self, run: "RunState") -> None:
        """Start the run. Raises `ConfigurationError`."""
        ...

    def cancel(self, run: "RunState", cause: StopCause) -> None: ...

    def show_here(self, run: "RunState") -> bool:
        """Show a run's cards in the current cell as well. False where there are none."""
        ...

    def on_end(self, end: RunResult) -> None:
        """Replace the live cards by the record, or keep them where the run can be tried again. In any thread."""
        ...

    def on_retry(self, run: "RunState") -> None:
        """A run that had ended is tried again. In any thread."""
        ...

    def on_waited(self, run: "RunState", end: RunResult) -> None:
        """The main thread has waited for the end: show the record now if no cards were shown."""
        ...

    def ask(self, question: Question[AnswerT]) -> AnswerT:
        """Ask the runtime, and wait for its answer. Raises `AgentKernelError`, such as `ServerSilent`."""
        ...


class RunState(Listenable):
    """One run in this kernel. Its host updates it, in any thread. Its listeners are called when the run ends."""

    def __init__(
        self,
        host: RunHost,
        declaration: RunDeclaration,
        tools: tuple[Tool, ...],
        *,
        number: int,
        cell: CellRequest | None = None,
        model: Any = None,
    ) -> None:
        """`number` is that of the cell that starts the run, as in `[2]`; `cell` the request to run that cell, where
        the front end names cells. `model` is a name, a model object or `None`."""
        super().__init__(threading.Lock())
        self.host = host
        self.run_id = declaration.run_id
        self.conversation_id = declaration.conversation_id
        self.prompt = declaration.prompt
        self._declaration = declaration
        self.tools = tools
        self.number = number
        self.cell = cell
        self.model = model
        self.stop_cause: StopCause | None = None
        """Set once this kernel has cancelled the run, which may not have started by then."""
        self.failure_handled = False
        """Whether the user's code allows a failure or has read it, so that it does not fail the cell."""
        self.waits = 0
        """How many cells, or calls in them, wait for its end now and run its calls meanwhile."""
        self.acknowledged = threading.Event()
        """Set when the server has asked for the declaration."""
        self.view: RunView | None = None
        """The runtime's latest view of the run; `None` until there is one."""
        self.end: RunResult | None = None
        self._done = threading.Event()

    @property
    def status(self) -> Status:
        """It is "running" also while the run waits for an earlier one of its conversation, or for an approval."""
        if self.end is not None and self.end.run.status != "queued":
            return self.end.run.status
        return "running"

    @property
    def done(self) -> bool:
        return self._done.is_set()

    def wait_done(self, timeout: float | None) -> bool:
        """Block this thread until the run has ended, for `timeout` seconds at most. Whether it has."""
        return self._done.wait(timeout)

    def cancel(self, cause: StopCause) -> None:
        """Cancel the run. For any thread; of two causes the first counts."""
        with self._lock:
            if self.end is not None or self.stop_cause is not None:
                return
            if cause != "cell_deleted":  # the cell may only have been moved, which the runtime finds out
                self.stop_cause = cause
        self.host.cancel(self, cause)

    def declaration(self) -> RunDeclaration:
        """The run as the server asks for it."""
        return self._declaration.model_copy(update={"stop": self.stop_cause})

    def shown_by(self, widget_model_id: str, *, prompt_in_cell: bool) -> None:
        """Note the widget that shows the run: by its id the record finds its place in the saved notebook."""
        shown = {"widget_model_id": widget_model_id, "prompt_in_cell": prompt_in_cell}
        self._declaration = self._declaration.model_copy(update=shown)

    def update(self, view: RunView) -> None:
        """The runtime has sent a new view of the run."""
        self.acknowledged.set()
        self.view = view

    def fail(self, message: str) -> None:
        """End a run that never reached a runtime."""
        self.finish(failed_run(self.declaration(), message))

    def finish(self, end: RunResult) -> None:
        """The runtime has ended the run. A repeat changes nothing."""
        with self._lock:
            if self.end is not None:
                return
            self.end, self.view = end, end.run
        try:
            self.host.on_end(end)
        finally:
            with self._lock:
                self._done.set()
                self._notify()

    def reopen(self) -> None:
        """The run, whose model had failed, is tried again."""
        with self._lock:
            self.end = self.stop_cause = None
            self._done.clear()
        self.host.on_retry(self)
