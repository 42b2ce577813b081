"""Replaces parts of the shell while a call runs, such as `sys.stdout` and `display`, and restores them afterwards."""

import asyncio
import builtins
import contextlib
import getpass
import logging
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, NoReturn

from IPython.core.error import StdinNotImplementedError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.payload import PayloadManager

from agent_kernel.notebook.execution.capture import CapturedStream, CaptureOf, OutputCapture
from agent_kernel.notebook.execution.descriptors import captured_descriptors
from agent_kernel.notebook.execution.interrupts import InterruptGate
from agent_kernel.notebook.execution.late_displays import current_displays, start_in_call, watch_thread
from agent_kernel.notebook.execution.output_widgets import entering, output_class
from agent_kernel.notebook.execution.tracebacks import NameOf, render

_MISSING = object()
_LAST_ERROR = ("last_type", "last_value", "last_traceback", "last_exc")


class CallPublisher:
    """The display publisher inside a call. Other attributes, such as `set_parent`, are those of the shell's own."""

    def __init__(self, original: Any, capture: CaptureOf) -> None:
        self._original = original
        self._capture = capture

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def publish(
        self,
        data: Mapping[str, Any],
        metadata: Mapping[str, Any] | None = None,
        *_: Any,
        transient: Mapping[str, Any] | None = None,
        update: bool = False,
        **__: Any,
    ) -> None:
        display_id = (transient or {}).get("display_id")
        displays = current_displays.get()
        capture = self._capture()
        if displays is not None and (displays.capture is not capture or capture.closed):
            # A thread of another call, or of one that has ended: the original publisher's hook receives its displays.
            self._original.publish(data, metadata, transient=transient, update=update)
        elif update and display_id is not None and not capture.knows(display_id):
            # A display that was made before this call.
            self._original.publish(data, metadata, transient=transient, update=True)
        else:
            capture.display(data, metadata, display_id)

    def clear_output(self, wait: bool = False) -> None:
        self._capture().clear(wait)


class CallDisplayHook:
    """Shows a call's last value, and leaves `_`, `Out` and the prompt number unchanged."""

    exec_result: Any = None

    def __init__(self, original: Any, shell: InteractiveShell, capture: CaptureOf, code: str) -> None:
        self._original = original
        self._shell = shell
        self._capture = capture
        self._code = code

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def __call__(self, value: Any = None) -> None:
        if value is None or self._original.semicolon_at_end_of_expression(self._code):
            return
        formatter: Any = self._shell.display_formatter
        data, metadata = formatter.format(value)
        if data:
            self._capture().display(data, metadata)


class ExitRefused(Exception):
    """Raised by `exit()`. It is not SystemExit, to which IPython adds a warning."""


def _refuse_input(*_: Any, **__: Any) -> NoReturn:
    raise StdinNotImplementedError(
        "input() is not available to tool calls: nobody can type here. Ask the user in your answer instead."
    )


def _refuse_exit() -> NoReturn:
    raise ExitRefused("exit() ends this call only. The kernel goes on.")


@contextlib.contextmanager
def captured(
    shell: InteractiveShell, capture: CaptureOf, code: str, name_of: NameOf, gate: InterruptGate
) -> Iterator[PayloadManager]:
    """Send all that the main thread prints, displays and raises to `capture`. Yields the pages for a pager."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(shell.builtin_trap)  # as in a cell: tools of modules find `get_ipython`
        stack.enter_context(own_figures())
        stack.enter_context(_quiet_pages())
        has_descriptors = stack.enter_context(captured_descriptors(lambda name, text: capture().write(name, text)))
        _keep_last_error(stack, shell)
        watch_thread(shell.display_pub)
        hook = CallDisplayHook(shell.displayhook, shell, capture, code)
        payloads = stack.enter_context(_own_payloads(shell))

        def show_error(exc_tuple: Any = None, *_: Any, **__: Any) -> None:
            error = (exc_tuple or sys.exc_info())[1]
            # An interrupt is an outcome of the call, not an output.
            if error is not None and not isinstance(error, KeyboardInterrupt | asyncio.CancelledError):
                capture().error(type(error).__name__, str(error), render(error, name_of))

        for owner, name, replacement in (
            (sys, "stdout", CapturedStream("stdout", capture, 1 if has_descriptors else None)),
            (sys, "stderr", CapturedStream("stderr", capture, 2 if has_descriptors else None)),
            (builtins, "input", _refuse_input),
            (getpass, "getpass", _refuse_input),
            (shell, "display_pub", CallPublisher(shell.display_pub, capture)),
            (shell, "displayhook", hook),
            (sys, "displayhook", hook),
            (shell.display_trap, "hook", hook),
            (shell, "showtraceback", show_error),
            (shell, "showsyntaxerror", lambda *_, **__: show_error()),
            (shell, "ask_exit", _refuse_exit),
            (shell, "run_code", _interruptible(shell, gate)),
        ):
            _swap(stack, owner, name, replacement)
        _swap(stack, threading.Thread, "start", start_in_call(shell.display_pub))
        # A name that a cell has bound to the kernel's own `input` or `getpass` would ask whoever ran the last cell.
        if (kernel := getattr(shell, "kernel", None)) is not None:
            _swap(stack, kernel, "_allow_stdin", False)
        # ipywidgets is imported wherever a page shows a run's cards.
        if (output := output_class()) is not None:
            enter, leave = entering(lambda widget: capture().enter(widget), lambda: capture().leave(), show_error)
            _swap(stack, output, "__enter__", enter)
            _swap(stack, output, "__exit__", leave)
        yield payloads


@contextlib.contextmanager
def _own_payloads(shell: InteractiveShell) -> Iterator[PayloadManager]:
    """Keep what the waiting cell has for its pager apart. A manager of its own takes as long to make as the twelve
    replacements below."""
    payloads: Any = shell.payload_manager
    kept = payloads.read_payload()
    payloads.clear_payload()
    try:
        yield payloads
    finally:
        payloads.clear_payload()
        for payload in kept:
            payloads.write_payload(payload, single=False)


@contextlib.contextmanager
def _quiet_pages() -> Iterator[None]:
    """Drop the kernel's warnings about comms of a page that was reloaded: they are no output of a call."""
    logger = logging.getLogger("Comm")

    def is_the_calls(record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith("No such comm:")

    logger.addFilter(is_the_calls)
    try:
        yield
    finally:
        logger.removeFilter(is_the_calls)


def _interruptible(shell: InteractiveShell, gate: InterruptGate) -> Callable[..., Coroutine[Any, Any, bool]]:
    """`run_code` with the gate open. IPython swallows an interrupt while it prepares a cell, so the gate opens here."""
    original: Any = type(shell).run_code

    async def run_code(code: Any, result: Any = None, *, async_: bool = False) -> bool:
        with gate.open(asyncio.current_task() if async_ else None):
            failed: bool = await original(shell, code, result, async_=async_)
            return failed

    return run_code


def _swap(stack: contextlib.ExitStack, owner: Any, name: str, replacement: Any) -> None:
    inherited = name not in vars(owner) and callable(getattr(type(owner), name, None))
    original = getattr(owner, name)
    setattr(owner, name, replacement)
    if inherited:
        stack.callback(delattr, owner, name)
    else:
        stack.callback(setattr, owner, name, original)


def _keep_last_error(stack: contextlib.ExitStack, shell: InteractiveShell) -> None:
    """Keep the user's own last error for `%debug` and `%tb`."""
    kept: list[tuple[Any, str, Any]] = [(sys, name, getattr(sys, name, _MISSING)) for name in _LAST_ERROR]
    for name in ("_last_traceback", "last_execution_result", "last_execution_succeeded"):
        kept.append((shell, name, getattr(shell, name, _MISSING)))

    def restore() -> None:
        for owner, name, value in kept:
            if value is not _MISSING:
                setattr(owner, name, value)
            elif hasattr(owner, name):
                delattr(owner, name)

    stack.callback(restore)


def show_pages(payloads: PayloadManager, capture: OutputCapture) -> None:
    """Show the pages of `name?`, which a cell shows in a pager, as outputs of the call."""
    for payload in payloads.read_payload():
        if payload.get("source") == "page" and isinstance(payload.get("data"), dict):
            capture.display(payload["data"])


@contextlib.contextmanager
def own_figures() -> Iterator[None]:
    """Keep a plot that the waiting cell has begun out of the code that runs here."""
    inline: Any = sys.modules.get("matplotlib_inline.backend_inline")
    helpers: Any = sys.modules.get("matplotlib._pylab_helpers")
    if inline is None or helpers is None or not inline.show._to_draw:
        yield
        return
    figures, to_draw, called = helpers.Gcf.figs, inline.show._to_draw, inline.show._draw_called
    helpers.Gcf.figs, inline.show._to_draw, inline.show._draw_called = OrderedDict(), [], False
    try:
        yield
    finally:
        helpers.Gcf.figs, inline.show._to_draw, inline.show._draw_called = figures, to_draw, called
