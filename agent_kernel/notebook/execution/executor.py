"""`MainThreadExecutor`: runs approved calls in the user's namespace and captures their outputs and outcome.

It never decides whether a call may run.
"""

import asyncio
import contextlib
import contextvars
import inspect
import json
import re
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from IPython.core.payload import PayloadManager

from agent_kernel.errors import InvalidArguments, ToolFailed
from agent_kernel.notebook.execution.capture import OutputCapture
from agent_kernel.notebook.execution.interrupts import Escaped, InterruptGate, RunInterrupted, run_beside, shielded
from agent_kernel.notebook.execution.late_displays import CallDisplays, current_displays
from agent_kernel.notebook.execution.mailbox import Entry, Mailbox
from agent_kernel.notebook.execution.redirect import captured, show_pages
from agent_kernel.notebook.execution.side_by_side import PerCallStreams, run_beside_others
from agent_kernel.notebook.execution.tracebacks import NameOf, cell_names, render
from agent_kernel.notebook.execution.values import ToolText, collect, collect_async, value_text
from agent_kernel.protocol.calls import Outcome
from agent_kernel.tools.langchain import current_tool_call_id
from agent_kernel.tools.tool import Tool

INTERRUPTED = "The call was interrupted before it finished. What ran before that stays."
INTERRUPTED_BY_USER = "The user interrupted the kernel before the call finished. What ran before that stays."
RAISED_ITSELF = "The code raised KeyboardInterrupt itself: nobody had interrupted it. What ran before that stays."
SIGNALLED = (
    "The call was interrupted by a signal (SIGINT), not by the user: nobody had asked Jupyter for an interrupt. Its "
    "own code, or a program that it started, may have sent it. What ran before that stays."
)

MAY_AWAIT = re.compile(r"await|async")
"""Code without these words is known not to await, without compiling it."""

FindTool = Callable[[str | None, str], Tool | None]
"""Finds a tool by the id of the run that offers it, and by its name."""

IsOpen = Callable[[str | None], bool]
"""Whether the run with this id has not ended."""

current_entry: contextvars.ContextVar[Entry | None] = contextvars.ContextVar("agent_kernel_current_entry", default=None)
"""The call whose code is running. A call's code may itself start a run and wait for it."""


def approved_path() -> Path | None:
    """The path that the approval of the current call is limited to; `None` if it names none."""
    entry = current_entry.get()
    place = entry.call.place if entry is not None else None
    return Path(place.path) if place is not None and place.path else None


class RunInterrupts(Protocol):
    """Cancels runs after an interrupt of the kernel, and knows which interrupts are the user's."""

    was_asked_for: Callable[[float], bool]
    """Whether Jupyter was asked for an interrupt within the last `seconds`."""

    def request_cancel(self, run_id: str | None, confirm: Callable[[], bool] | None = None) -> None: ...

    def cancel(self, run_id: str | None) -> None: ...


class MainThreadExecutor:
    """One per kernel process. `run_python` has no tool function: its code is run by the shell."""

    def __init__(
        self,
        shell: InteractiveShell,
        mailbox: Mailbox,
        find: FindTool,
        interrupts: RunInterrupts,
        is_open: IsOpen,
    ) -> None:
        self.shell = shell
        self.mailbox = mailbox
        self.find = find
        self.interrupts = interrupts
        self.is_open = is_open

    def run_next(self, approval_id: str | None = None) -> bool:
        """Claim a deposited call (without an id, the oldest) and run it now. False if there was none to claim.

        On any other thread than the main one there is never one.
        """
        # Before the claim: an interrupt of a claimed call must find the gate.
        with (gate := InterruptGate()).installed():
            entry = self._claim(approval_id)
            if entry is not None:
                if self._runs_beside_others(entry):
                    run_beside(self._beside_others(entry, gate))
                else:
                    execution = self._execution(entry, gate)
                    drive(execution.settle(execution.wait_beside))
                return True
        gate.pass_on()
        return False

    async def run_next_async(self, approval_id: str | None = None) -> bool:
        """As `run_next`; a call that awaits does so on the running event loop."""
        with (gate := InterruptGate()).installed():
            entry = self._claim(approval_id)
            if entry is not None:
                if self._runs_beside_others(entry):
                    await self._beside_others(entry, gate)
                else:
                    execution = self._execution(entry, gate)
                    await execution.settle(execution.wait_here)
                return True
        gate.pass_on()
        return False

    def needs_await(self, tool_name: str, arguments_json: str, run_id: str | None = None) -> bool:
        """Whether the call needs an event loop. Safe in any thread."""
        if tool_name != "run_python":
            tool = self.find(run_id, tool_name)
            return tool is not None and tool.needs_await
        try:
            code = str(json.loads(arguments_json)["code"])
            if not MAY_AWAIT.search(code):
                return False
            # Without the prefilter, which is for the main thread only.
            transformed = self.shell.input_transformer_manager.transform_cell(code)
        except (ValueError, KeyError, TypeError, SyntaxError):
            return False
        return self.shell.should_run_async(code, transformed_cell=transformed)

    def on_late_interrupt(self) -> None:
        """An interrupt that comes when a call has ended is one between calls: it cancels what is open."""
        self.interrupts.request_cancel(None)

    def _execution(self, entry: Entry, gate: InterruptGate, shared: PerCallStreams | None = None) -> "_Execution":
        return _Execution(self, entry, gate, shared)

    def _runs_beside_others(self, entry: Entry) -> bool:
        tool = self.find(entry.run_id, entry.call.tool_name)
        return tool is not None and tool.declaration.read_only and tool.needs_await

    async def _beside_others(self, first: Entry, gate: InterruptGate) -> None:
        shared = PerCallStreams()

        def fits(entry: Entry) -> bool:
            return entry.run_id == first.run_id and self._runs_beside_others(entry)

        async def begin(entry: Entry) -> None:
            execution = self._execution(entry, gate, shared)
            await execution.settle(execution.wait_here)

        with captured(self.shell, shared.current, "", str, gate):
            await run_beside_others(self.mailbox, first, fits, begin)
            gate.end(self.on_late_interrupt)

    def _claim(self, approval_id: str | None) -> Entry | None:
        if threading.current_thread() is not threading.main_thread():
            return None
        current = current_entry.get()
        return self.mailbox.claim(approval_id, inside=current.call.approval_id if current is not None else None)


class _Execution:
    """One call while it runs."""

    def __init__(
        self,
        executor: MainThreadExecutor,
        entry: Entry,
        gate: InterruptGate,
        shared: PerCallStreams | None,
    ) -> None:
        """`shared` receives the outputs of several calls that run beside each other, and separates them."""
        self._executor = executor
        self._shell = executor.shell
        self._shared = shared
        self._entry = entry
        self._gate = gate
        self._name_of: NameOf = str
        self._capture = OutputCapture(lambda output: executor.mailbox.output(entry, output))
        if shared is not None:
            shared.captures.append(self._capture)
        self._began = time.monotonic()
        self._asked_for: bool | None = None
        request = getattr(self._shell.display_pub, "parent_header", {})
        self._displays = CallDisplays(self._capture, partial(executor.is_open, entry.run_id), request)

    async def settle(self, wait: Callable[[Awaitable[Any]], Coroutine[Any, Any, Any]]) -> None:
        """Run the call and put its outcome into the mailbox, whatever happens."""
        outcome = Outcome("error", "The call could not be run: Agent Kernel itself failed.")
        tool_call_id = current_tool_call_id.set(self._entry.call.tool_call_id)
        entry = current_entry.set(self._entry)
        displays = current_displays.set(self._displays)
        try:
            with self._gate.watched(self._on_interrupt):
                outcome = await self._outcome(wait)
        except asyncio.CancelledError:
            # Not an interrupt of the call: the cell that waits for it was cancelled.
            outcome = self._outcome_of(_End("cancelled", INTERRUPTED))
            raise
        finally:
            self._capture.close()
            self._executor.mailbox.code_ended(self._entry)
            current_tool_call_id.reset(tool_call_id)
            current_entry.reset(entry)
            current_displays.reset(displays)
            if self._shared is None:
                self._gate.end(self._executor.on_late_interrupt)
            if self._is_by_user():
                # Before the outcome is known, so that the model is not asked again.
                self._executor.interrupts.cancel(self._entry.run_id)
            self._executor.mailbox.finish(self._entry, with_undo(outcome, self._entry.call.approval_id))

    def _on_interrupt(self) -> None:
        """The kernel was interrupted: that interrupts the call and cancels its run. Called in the signal's handler."""
        self._entry.skip_interrupt = True
        self._executor.interrupts.request_cancel(self._entry.run_id, self._is_by_user)

    def _is_by_user(self) -> bool:
        """Whether the call had a signal that Jupyter was asked for. For any thread; it may ask the server."""
        if self._gate.by_user and self._asked_for is None:
            self._asked_for = self._executor.interrupts.was_asked_for(time.monotonic() - self._began)
            if not self._asked_for:
                self._entry.skip_interrupt = False
        return bool(self._asked_for)

    async def _outcome(self, wait: Callable[[Awaitable[Any]], Coroutine[Any, Any, Any]]) -> Outcome:
        end = await self._end(wait)
        # Only now has all output of the call's child processes been read.
        return self._outcome_of(end) if isinstance(end, _End) else end

    def _outcome_of(self, end: "_End") -> Outcome:
        self._capture.close()
        text = "\n".join(part for part in (self._capture.text_for_model(), end.last) if part)
        text = text or f"({self._entry.call.tool_name} completed with no output)"
        return Outcome(end.status, text, output_file=self._capture.output_file)

    async def _end(self, wait: Callable[[Awaitable[Any]], Coroutine[Any, Any, Any]]) -> "Outcome | _End":
        try:
            arguments = json.loads(self._entry.call.arguments_json)
            code = arguments.get("code", "") if self._entry.call.tool_name == "run_python" else ""
            self._name_of = cell_names(self._shell, code, self._entry.call.tool_name)
            with self._redirected(code) as pages:
                value: Any = None
                try:
                    value = self._start(arguments)
                    if inspect.isawaitable(value):
                        value = await wait(value)
                    if isinstance(value, Escaped):
                        raise value.error
                    with self._gate.open():
                        if inspect.isgenerator(value):
                            value = collect(value, self._shell, self._capture)
                        self._after(value)
                        if pages is not None:
                            show_pages(pages, self._capture)
                        return self._succeeded(value)
                except (Exception, KeyboardInterrupt, SystemExit) as error:  # noqa: BLE001 -- user code
                    return self._failed(error)
                except asyncio.CancelledError as error:
                    if not self._gate.interrupted and self._shared is None:
                        raise
                    return self._failed(error)
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 -- an outcome in any case
            return self._failed(error)

    def _redirected(self, code: str) -> contextlib.AbstractContextManager[PayloadManager | None]:
        if self._shared is not None:
            return contextlib.nullcontext()
        return captured(self._shell, lambda: self._capture, code, self._name_of, self._gate)

    def _start(self, arguments: dict[str, Any]) -> Any:
        """Start the call's code. Returns its value, or an awaitable of it."""
        name = self._entry.call.tool_name
        if name == "run_python":
            return self._run_code(str(arguments["code"]))
        tool = self._executor.find(self._entry.run_id, name)
        if tool is None:
            raise LookupError(f"This kernel has no tool named {name!r}. Run the cell that declares it again.")
        with self._gate.open():
            value = tool.call(arguments)
        return self._awaited(value) if inspect.isawaitable(value) or inspect.isasyncgen(value) else value

    async def _awaited(self, value: Any) -> Any:
        with self._gate.open(asyncio.current_task()):
            if not inspect.isasyncgen(value):
                value = await value
            return await collect_async(value, self._shell, self._capture) if inspect.isasyncgen(value) else value

    def _run_code(self, code: str) -> Any:
        failure: BaseException | None = None
        transformed = code
        try:
            transformed = self._shell.transform_cell(code)
        except Exception as error:  # noqa: BLE001 -- shown as the call's error, as IPython does
            failure = error
        coroutine = self._shell.run_cell_async(
            code,
            store_history=False,
            transformed_cell=transformed,
            preprocessing_exc_tuple=(type(failure), failure, failure.__traceback__) if failure else None,
        )
        # Not `run_cell`: it would file the call's output in the user's history.
        may_await = failure is None and MAY_AWAIT.search(transformed)
        if may_await and self._shell.should_run_async(code, transformed_cell=transformed):
            return coroutine
        return drive(coroutine)

    async def wait_here(self, awaitable: Awaitable[Any]) -> Any:
        return await asyncio.get_running_loop().create_task(shielded(awaitable))

    async def wait_beside(self, awaitable: Awaitable[Any]) -> Any:
        return run_beside(awaitable)

    def _after(self, value: Any) -> None:
        # matplotlib shows its figures in such a hook.
        self._shell.events.trigger("post_execute")
        if isinstance(value, ExecutionResult):
            self._shell.events.trigger("post_run_cell", value)

    def _succeeded(self, value: Any) -> "Outcome | _End":
        if isinstance(value, ExecutionResult):
            error = value.error_before_exec or value.error_in_exec
            return self._failed(error) if error is not None else _End("success")
        if isinstance(value, ToolText):
            return Outcome("success", value, output_file=self._capture.output_file)
        return _End("success", value_text(value, self._shell, self._capture))

    def _failed(self, error: BaseException) -> "Outcome | _End":
        stopped = isinstance(error, KeyboardInterrupt | asyncio.CancelledError)
        if isinstance(error, RunInterrupted):
            self._gate.by_user = self._asked_for = True  # it came while this call waited for another run
        if stopped:
            if self._is_by_user():
                return _End("cancelled", INTERRUPTED_BY_USER)
            signalled = self._gate.by_user
            beside = self._shared is not None and isinstance(error, asyncio.CancelledError)
            if self._entry.stopped or ((self._gate.interrupted or beside) and not signalled):
                return _End("cancelled", INTERRUPTED)
            self._capture.error(KeyboardInterrupt.__name__, str(error), render(error, self._name_of))
            return _End("error", SIGNALLED if signalled else RAISED_ITSELF)
        if isinstance(error, ToolFailed | InvalidArguments):
            # The message is made for the model; a traceback would not help it.
            self._capture.error(type(error).__name__, str(error), str(error))
            return Outcome("error", str(error))
        if not self._capture.has_error:
            self._capture.error(type(error).__name__, str(error), render(error, self._name_of))
        return _End("error")


def with_undo(outcome: Outcome, approval_id: str) -> Outcome:
    """The outcome, with `undo` set if its file change can be undone."""
    from agent_kernel.notebook.execution.undo import backups

    return replace(outcome, undo=backups.offer(approval_id))


@dataclass(frozen=True, slots=True)
class _End:
    """The end of a call whose outputs are its result; `last` is added after them."""

    status: Literal["success", "error", "cancelled"]
    last: str = ""


def drive(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that never suspends, and return its value. Raises `RuntimeError` if it does."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    coroutine.close()
    raise RuntimeError("the call waits for an event loop where there is none")
