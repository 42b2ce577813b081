"""`CallRunner`: runs approved calls in the user's namespace, as cells run. It never decides whether a call may run."""

import asyncio
import contextvars
import inspect
import json
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager, aclosing, closing, nullcontext
from pathlib import Path
from typing import Any, Protocol

from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from IPython.display import display

from agent_kernel.errors import InvalidArguments, ToolFailed
from agent_kernel.notebook.execution.approved_calls import Calls, Entry
from agent_kernel.notebook.execution.backups import backups
from agent_kernel.notebook.execution.call_interrupts import InterruptGate, RunInterrupted
from agent_kernel.notebook.execution.call_scope import PrintedByChildren, ShowError, as_a_call, as_parent, show_pages
from agent_kernel.notebook.execution.tracebacks import cell_names, render
from agent_kernel.protocol.kernel import CallEnd
from agent_kernel.tools.langchain import current_tool_call_id
from agent_kernel.tools.tool import Tool

INTERRUPTED = "The call was interrupted before it finished. What ran before that stays."
INTERRUPTED_BY_USER = "The user interrupted the kernel before the call finished. What ran before that stays."
RAISED_ITSELF = "The code raised KeyboardInterrupt itself: nobody had interrupted it. What ran before that stays."
SIGNALLED = (
    "The call was interrupted by a signal (SIGINT), not by the user: nobody had asked Jupyter for an interrupt. Its "
    "own code, or a program that it started, may have sent it. What ran before that stays."
)

MOST_ITEMS = 10_000
"""How many values of a generator are shown: one may be endless."""
_MORE = f"[The tool gave more than {MOST_ITEMS:,} values. It was ended here.]\n"

FindTool = Callable[[str | None, str], Tool | None]
"""Finds a tool by the id of the run that offers it, and by its name."""

current_entry: contextvars.ContextVar[Entry | None] = contextvars.ContextVar("agent_kernel_current_entry", default=None)
"""The call whose code is running. A call's code may itself start a run and wait for it."""


def approved_path() -> Path | None:
    """The path that the approval of the current call is limited to; `None` if it names none."""
    entry = current_entry.get()
    place = entry.call.place if entry is not None else None
    return Path(place.path) if place is not None and place.path else None


class ToolText(str):
    """A result that is the whole text for the model: the call's live output is part of it, and not added again."""


class RunInterrupts(Protocol):
    """Cancels runs after an interrupt of the kernel, and knows which interrupts are the user's."""

    was_asked_for: Callable[[float], bool]
    """Whether Jupyter was asked for an interrupt within the last `seconds`."""

    def request_cancel(self, run_id: str | None, confirm: Callable[[], bool] | None = None) -> None: ...

    def cancel(self, run_id: str | None) -> None: ...


class CallRunner:
    """One per kernel process; for the main thread."""

    def __init__(
        self,
        shell: InteractiveShell,
        calls: Calls,
        find: FindTool,
        interrupts: RunInterrupts,
        changed: Callable[[], None],
    ) -> None:
        """`changed` is called before and after each call that is not read-only."""
        self.shell = shell
        self.calls = calls
        self.find = find
        self.interrupts = interrupts
        self.changed = changed
        self.children = PrintedByChildren()
        self.capture: Callable[[Entry, list[dict[str, Any]]], AbstractContextManager[None]] = lambda *_: nullcontext()
        """Where there is no kernel: captures what a call puts out. Errors are added to the list instead of shown."""

    async def run(self, approval_id: str) -> None:
        """Run a call that was deposited, within the execution that is its own. Does nothing if it was claimed."""
        await self._run(approval_id)

    async def run_next(self) -> bool:
        """Within a cell that waits, run the oldest call that was deposited. False if there was none to claim."""
        task = asyncio.get_running_loop().create_task(self._run(None), context=contextvars.copy_context())
        return await task

    async def _run(self, approval_id: str | None) -> bool:
        # Before the claim: an interrupt of a claimed call must find the gate.
        with (gate := InterruptGate()).installed():
            if (entry := self._claim(approval_id)) is not None:
                with as_parent(self.shell, entry.message_id) if approval_id is None else nullcontext():
                    await _Execution(self, entry, gate, is_own=approval_id is not None).settle()
                return True
        gate.pass_on()
        return False

    def _claim(self, approval_id: str | None) -> Entry | None:
        if threading.current_thread() is not threading.main_thread():
            return None
        current = current_entry.get()
        return self.calls.claim(approval_id, inside=current.call.approval_id if current is not None else None)

    def on_late_interrupt(self) -> None:
        """An interrupt that comes when a call has ended is one between calls: it cancels what is open."""
        self.interrupts.request_cancel(None)


class _Execution:
    """One call while it runs."""

    def __init__(self, runner: CallRunner, entry: Entry, gate: InterruptGate, *, is_own: bool) -> None:
        """`is_own`: it is run by its own message, and not by a cell that waits."""
        self._runner = runner
        self._is_own = is_own
        self._shell = runner.shell
        self._entry = entry
        self._gate = gate
        self._began = time.monotonic()
        self._asked_for: bool | None = None
        self._shown: list[BaseException] = []
        self._errors: list[dict[str, Any]] = []

    async def settle(self) -> None:
        """Run the call and keep its end, whatever happens."""
        end = CallEnd(status="error", text="The call could not be run: Agent Kernel itself failed.")
        tool_call_id = current_tool_call_id.set(self._entry.call.tool_call_id)
        current = current_entry.set(self._entry)
        forks = self._runner.children.forks
        tool = self._runner.find(self._entry.run_id, self._entry.call.tool_name)
        changed = self._runner.changed if tool is None or not tool.declaration.read_only else lambda: None
        changed()
        try:
            with self._gate.watched(self._on_interrupt), self._runner.capture(self._entry, self._errors):
                end = await self._end()
        except asyncio.CancelledError:
            # Not an interrupt of the call: the cell that waits for it was cancelled.
            end = CallEnd(status="cancelled", text=INTERRUPTED)
            raise
        finally:
            self._runner.calls.code_ended(self._entry)
            self._gate.end(self._runner.on_late_interrupt)
            self._runner.children.wait(forks)
            current_tool_call_id.reset(tool_call_id)
            current_entry.reset(current)
            if self._is_by_user():
                # Before the end is known, so that the model is not asked again.
                self._runner.interrupts.cancel(self._entry.run_id)
            undo = backups.offer(self._entry.call.approval_id)
            changed()
            self._runner.calls.finish(self._entry, end.model_copy(update={"undo": undo}))

    def _on_error(self, error: BaseException, lines: list[str]) -> None:
        self._shown.append(error)
        self._errors.append({"ename": type(error).__name__, "evalue": str(error), "traceback": lines})

    def _on_interrupt(self) -> None:
        """The kernel was interrupted: that interrupts the call and cancels its run. Called in the signal's handler."""
        self._entry.skip_interrupt = True
        self._runner.interrupts.request_cancel(self._entry.run_id, self._is_by_user)

    def _is_by_user(self) -> bool:
        """Whether the call had a signal that Jupyter was asked for. For any thread; it may ask the server."""
        if self._gate.by_user and self._asked_for is None:
            self._asked_for = self._runner.interrupts.was_asked_for(time.monotonic() - self._began)
            if not self._asked_for:
                self._entry.skip_interrupt = False
        return bool(self._asked_for)

    async def _end(self) -> CallEnd:
        name = self._entry.call.tool_name
        try:
            arguments = json.loads(self._entry.call.arguments_json)
            code = str(arguments["code"]) if name == "run_python" else ""
            name_of = cell_names(self._shell, code, name)
            payloads: Any = self._shell.payload_manager
            before = list(payloads.read_payload())
            asks = self._is_own and self._entry.call.may_ask
            with as_a_call(self._shell, code, name_of, self._gate, self._on_error, asks=asks) as show_error:
                try:
                    value = await (self._run_code(code) if name == "run_python" else self._run_tool(name, arguments))
                    with self._gate.open():
                        if inspect.isgenerator(value):
                            value = _collect(value, self._shell)
                        self._after(value)
                        show_pages(self._shell, before)
                        text = "" if isinstance(value, ExecutionResult) else _value_text(value, self._shell)
                    error = _error_of(value)
                    if error is None:
                        return CallEnd(status="success", text=text, is_whole=isinstance(value, ToolText))
                except (Exception, KeyboardInterrupt, SystemExit) as raised:  # noqa: BLE001 -- user code
                    error = raised
                except asyncio.CancelledError as cancelled:
                    if not self._gate.interrupted:
                        raise
                    error = cancelled
                return self._failed(error, show_error, render(error, name_of))
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 -- an end in any case
            return CallEnd(status="error", text=f"{type(error).__name__}: {error}")

    async def _run_code(self, code: str) -> Any:
        """As a cell, but that nothing is filed in the user's history."""
        failure: BaseException | None = None
        transformed = code
        try:
            transformed = self._shell.transform_cell(code)
        except Exception as error:  # noqa: BLE001 -- shown as the call's error, as IPython does
            failure = error
        return await self._shell.run_cell_async(
            code,
            store_history=False,
            transformed_cell=transformed,
            preprocessing_exc_tuple=(type(failure), failure, failure.__traceback__) if failure else None,
        )

    async def _run_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        tool = self._runner.find(self._entry.run_id, name)
        if tool is None:
            raise LookupError(f"This kernel has no tool named {name!r}. Run the cell that declares it again.")
        with self._gate.open():
            value = tool.call(arguments)
        if not (inspect.isawaitable(value) or inspect.isasyncgen(value)):
            return value
        with self._gate.open(asyncio.current_task()):
            if inspect.isasyncgen(value):
                return await _collect_async(value, self._shell)
            value = await value
            return await _collect_async(value, self._shell) if inspect.isasyncgen(value) else value

    def _after(self, value: Any) -> None:
        # matplotlib shows its figures in such a hook.
        self._shell.events.trigger("post_execute")
        if isinstance(value, ExecutionResult):
            self._shell.events.trigger("post_run_cell", value)

    def _failed(self, error: BaseException, show_error: ShowError, traceback: str) -> CallEnd:
        if isinstance(error, RunInterrupted):
            self._gate.by_user = self._asked_for = True  # it came while this call waited for another run
        if isinstance(error, KeyboardInterrupt | asyncio.CancelledError):
            if self._is_by_user():
                return CallEnd(status="cancelled", text=INTERRUPTED_BY_USER)
            signalled = self._gate.by_user
            if self._entry.stopped or (self._gate.interrupted and not signalled):
                return CallEnd(status="cancelled", text=INTERRUPTED)
            show_error(KeyboardInterrupt(str(error)), traceback)
            return CallEnd(status="error", text=SIGNALLED if signalled else RAISED_ITSELF)
        if isinstance(error, ToolFailed | InvalidArguments):
            # The message is made for the model; a traceback would not help it.
            show_error(error, error.shown if isinstance(error, ToolFailed) else str(error))
            return CallEnd(status="error", text=str(error), is_whole=True)
        if error not in self._shown:
            show_error(error, traceback)
        return CallEnd(status="error")


def _error_of(value: Any) -> BaseException | None:
    """IPython returns an error of the code, and does not raise it."""
    if not isinstance(value, ExecutionResult):
        return None
    error: BaseException | None = value.error_before_exec or value.error_in_exec
    return error


def _value_text(value: Any, shell: InteractiveShell) -> str:
    """A string as it is; JSON if the value can be JSON, else its representation.

    A value with a rich display (a table, a figure) is shown as an output of the call, and gives "" here: the model gets
    the text of that output.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    formatter: Any = shell.display_formatter
    if not isinstance(value, bool | int | float | list | tuple | dict):
        data, metadata = formatter.format(value)
        if set(data) - {"text/plain"}:
            display(data, metadata=metadata, raw=True)
            return ""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return repr(value)


def _collect(generator: Generator[Any, Any, Any], shell: InteractiveShell) -> Any:
    """Show each value of a generator as it comes, one a line. Returns the generator's return value."""
    with closing(generator):
        for _ in range(MOST_ITEMS):
            try:
                item = next(generator)
            except StopIteration as end:
                return end.value
            _show(item, shell)
        sys.stdout.write(_MORE)
        return None


async def _collect_async(generator: AsyncGenerator[Any, Any], shell: InteractiveShell) -> None:
    """As `_collect`."""
    async with aclosing(generator):
        number = 0
        async for item in generator:
            if number == MOST_ITEMS:
                sys.stdout.write(_MORE)
                return
            _show(item, shell)
            number += 1


def _show(item: Any, shell: InteractiveShell) -> None:
    text = _value_text(item, shell)
    if text:
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
