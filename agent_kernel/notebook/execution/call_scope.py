"""What a call's execution has apart from that of a cell: the user's `_`, `Out` and last error stay, `exit()` ends the
call only, an error is told from the call's own code on, and what an Output widget takes is in the widget.

IPython's, ipykernel's and ipywidgets' parts that are replaced while a call runs are undocumented, and used only here:
docs/decisions/hooks.md.
"""

import asyncio
import contextlib
import os
import stat
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from agent_kernel.notebook.execution.call_interrupts import InterruptGate
from agent_kernel.notebook.execution.output_widgets import ShownWidgets, output_class, replacements
from agent_kernel.notebook.execution.tracebacks import NameOf, render

DRAIN_SECONDS = 10.0
"""How long the end of a call waits at most for what child processes have printed before it."""
FORKED_SECONDS = 0.1
"""How long what a forked child has published may take to be with ipykernel's own thread."""
_MISSING = object()
_SYN = "\x16"
_LAST_ERROR = ("last_type", "last_value", "last_traceback", "last_exc")
ShowError = Callable[[BaseException, str], None]
"""Shows an error with this traceback."""


class ExitRefused(Exception):
    """Raised by `exit()`. It is not SystemExit, to which IPython adds a warning."""


def _refuse_exit() -> NoReturn:
    raise ExitRefused("exit() ends this call only. The kernel goes on.")


@contextlib.contextmanager
def as_a_call(
    shell: InteractiveShell,
    code: str,
    name_of: NameOf,
    gate: InterruptGate,
    on_error: Callable[[BaseException, list[str]], None],
    *,
    asks: bool,
) -> Iterator[ShowError]:
    """`on_error` is called with the lines of each error that is shown. `asks`: the call has an execution of its own,
    and somebody answers what its code asks for."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(_own_figures())
        _keep_last_error(stack, shell)
        show: Any = shell._showtraceback

        def show_error(error: BaseException, text: str) -> None:
            lines = text.splitlines() or [str(error)]
            on_error(error, lines)
            if hasattr(shell, "kernel"):
                show(type(error), error, lines)

        def show_traceback(_kind: Any, error: Any, _lines: Any) -> None:
            # An interrupt is an outcome of the call, not an output.
            if not isinstance(error, KeyboardInterrupt | asyncio.CancelledError):
                show_error(error, render(error, name_of))

        replaced: list[tuple[Any, str, Any]] = [
            (shell, "_showtraceback", show_traceback),
            (shell, "ask_exit", _refuse_exit),
            (shell, "run_code", _interruptible(shell, gate)),
            (shell.displayhook, "update_user_ns", lambda _result: None),
            (shell.displayhook, "log_output", lambda _bundle: None),
            (shell.displayhook, "quiet", lambda: shell.displayhook.semicolon_at_end_of_expression(code)),
        ]
        if (kernel := getattr(shell, "kernel", None)) is not None:
            widgets = ShownWidgets(shell)
            stack.callback(widgets.update)
            replaced.append((shell.display_formatter, "format", widgets.format))
            # The waiting cell's may be on, and its page would be asked.
            replaced.append((kernel, "_allow_stdin", asks and kernel._allow_stdin))
        else:
            replaced.append((shell.displayhook, "write_output_prompt", lambda: None))
        if (widget := output_class()) is not None:
            replaced.extend(
                (widget, name, with_it)
                for name, with_it in replacements(shell, lambda error: render(error, name_of)).items()
            )
        for owner, name, replacement in replaced:
            _swap(stack, owner, name, replacement)
        yield show_error


@contextlib.contextmanager
def as_parent(shell: InteractiveShell, message_id: str) -> Iterator[None]:
    """Have all that is put out name the call's own message, and afterwards the message of the cell that waits again."""
    kernel: Any = getattr(shell, "kernel", None)
    if kernel is None:
        yield
        return
    cell, ident = kernel.get_parent("shell"), kernel._parent_ident["shell"]
    header = {
        "msg_id": message_id,
        "msg_type": "execute_request",
        "session": message_id.partition("_")[0],
        "username": "agent-kernel",
        "date": datetime.now(UTC).isoformat(),
        "version": "5.3",
    }
    # Whether a person can be asked is as in the cell that waits.
    content = {"silent": True, "allow_stdin": (cell.get("content") or {}).get("allow_stdin", False)}
    kernel.set_parent(ident, {"header": header, "parent_header": {}, "metadata": {}, "content": content}, "shell")
    try:
        yield
    finally:
        kernel.set_parent(ident, cell, "shell")


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
    """Keep the user's own last error for `%debug` and `%tb`, and the streams of the cells."""
    kept: list[tuple[Any, str, Any]] = [
        (sys, name, getattr(sys, name, _MISSING)) for name in (*_LAST_ERROR, "stdout", "stderr")
    ]
    for name in ("_last_traceback", "last_execution_result", "last_execution_succeeded"):
        kept.append((shell, name, getattr(shell, name, _MISSING)))

    def restore() -> None:
        for owner, name, value in kept:
            if value is not _MISSING:
                setattr(owner, name, value)
            elif hasattr(owner, name):
                delattr(owner, name)

    stack.callback(restore)


def show_pages(shell: InteractiveShell, before: Sequence[Any]) -> None:
    """Show the pages of `name?`, which a cell shows in a pager, as outputs of the call. `before`: the cell's own
    payloads."""
    payloads: Any = shell.payload_manager
    for payload in payloads.read_payload():
        if payload not in before and payload.get("source") == "page" and isinstance(payload.get("data"), dict):
            display(payload["data"], raw=True)
    payloads.clear_payload()
    for payload in before:
        payloads.write_payload(payload, single=False)


@contextlib.contextmanager
def _own_figures() -> Iterator[None]:
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


class PrintedByChildren:
    """Waits for what child processes and C code have printed: ipykernel's threads read that behind the call's back."""

    def __init__(self) -> None:
        self._streams: list[Any] = [sys.stdout, sys.stderr]
        self.forks = 0
        """How often this process has been forked."""
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_parent=self._on_fork)

    def _on_fork(self) -> None:
        self.forks += 1

    def wait(self, forks_before: int) -> None:
        for stream in self._streams:
            if getattr(stream, "_fid", None) is not None:
                with contextlib.suppress(OSError):  # the call may have closed the descriptor
                    _drain(stream)
        if self.forks != forks_before:
            time.sleep(FORKED_SECONDS)
        for stream in self._streams:
            with contextlib.suppress(ValueError):
                stream.flush()


def _drain(stream: Any) -> None:
    """Print a SYN, which a terminal ignores, and wait until ipykernel's thread has read it. It is no output."""
    descriptor = stream._original_stdstream_fd
    if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        return  # the call has put something else there
    seen = threading.Event()
    original = stream.write

    def write(text: str) -> Any:
        if threading.current_thread() is not stream.watch_fd_thread or _SYN not in text:
            return original(text)
        written = original(text.replace(_SYN, ""))
        seen.set()
        return written

    stream.write = write
    try:
        os.write(descriptor, _SYN.encode())
        seen.wait(DRAIN_SECONDS)
    finally:
        del stream.write
