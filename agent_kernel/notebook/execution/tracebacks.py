"""Renders tracebacks of calls: plain text, from the call's own code on, without paths of this machine."""

import re
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

_HIDDEN = re.compile(r"[/\\]IPython[/\\]core[/\\](interactiveshell|async_helpers|compilerop|autocall)")
LIBRARY = re.compile(r"^.*[/\\](?:site-packages|dist-packages|lib[/\\]python3\.\d+)[/\\]")
"""What a library's source file begins with."""
_PACKAGE = str(Path(__file__).resolve().parents[2])

NameOf = Callable[[str], str]
"""Maps a source file's path to the name that is shown."""


def cell_names(shell: InteractiveShell, code: str, tool_name: str) -> NameOf:
    """Names the files that IPython makes of cells: this call's code by its tool, others as `Cell In[3]`."""
    own = shell.compile.get_code_name(code, code, shell.execution_count)

    def name_of(filename: str) -> str:
        if filename == own:
            return tool_name
        found = shell.compile.format_code_name(filename)
        return " ".join(found) if found is not None else LIBRARY.sub("", filename)

    return name_of


def render(error: BaseException, name_of: NameOf) -> str:
    """The traceback of an error and its causes, as text."""
    if isinstance(error, UsageError):
        return f"UsageError: {error}"
    summary = traceback.TracebackException(type(error), error, _readers_part(error.__traceback__), compact=True)
    _rename(summary, name_of)
    return "".join(summary.format()).rstrip()


def _readers_part(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and is_ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace


def _rename(summary: traceback.TracebackException, name_of: NameOf) -> None:
    kept = [frame for frame in summary.stack if not is_ours(frame.filename)]
    for frame in kept:
        frame.line  # noqa: B018 -- reads the source line, which the new name no longer finds
        frame.filename = name_of(frame.filename)
    summary.stack[:] = kept
    if isinstance(getattr(summary, "filename", None), str):
        summary.filename = name_of(summary.filename)
    for inner in (summary.__cause__, summary.__context__, *(summary.exceptions or ())):
        if inner is not None:
            _rename(inner, name_of)


def is_ours(filename: str) -> bool:
    """Whether a source file is Agent Kernel's, or IPython's around each cell."""
    return filename.startswith(_PACKAGE) or _HIDDEN.search(filename) is not None
