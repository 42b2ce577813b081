"""Describes exceptions to the model: name, message, the last frames, causes and groups.

None of the user's code runs. What Python itself keeps of an exception is read by its own descriptors, because a
subclass may have properties of the same names, and its `__str__` is not called.
"""

import linecache
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from subprocess import CalledProcessError
from types import TracebackType
from typing import Any

from agent_kernel.notebook.execution.tracebacks import LIBRARY, is_ours
from agent_kernel.notebook.plain_values import safe_text, type_name

MAX_CHARACTERS = 2_400
"""Of one exception, with its causes."""
MESSAGE_CHARACTERS, _MESSAGE_BEGINS = 800, 500
_LINE_CHARACTERS = 200
_CELL_MAGIC = "get_ipython().run_cell_magic("
"""What IPython makes of a cell such as `%%bash`: the line has the whole cell again."""
_OWN_FRAMES, _MEMBERS_FRAMES, _LIBRARY_FRAMES = 8, 2, 3
"""The most frames of the user's own code; of that in a member of a group; and of libraries between two of these."""
_MOST_FRAMES = 20_000
_CAUSES, _MEMBERS, _DEPTH, _NOTES = 4, 5, 2, 5

CellName = Callable[[str], str | None]
"""The name of a cell, `Cell In[3]`, by the file that IPython makes of it; `None` for other files."""


@dataclass(frozen=True, slots=True)
class Places:
    """Tells the user's own code from libraries: cells, and modules in the notebook's folder."""

    cell_name: CellName
    folder: str

    def name(self, path: str) -> tuple[str, bool]:
        """The name to show for a source file, and whether it is the user's own."""
        cell = self.cell_name(path)
        if cell is not None:
            return cell, True
        if (library := LIBRARY.sub("", path)) != path:
            return library, False
        inside = path.startswith(self.folder.rstrip(os.sep) + os.sep)
        return (os.path.relpath(path, self.folder), True) if inside else (path, False)


@dataclass(frozen=True, slots=True)
class _Frame:
    place: str
    own: bool
    line: int
    function: str
    source: str

    @property
    def text(self) -> str:
        where = f"{self.place}, line {self.line}" + (f", in {self.function}" if self.function != "<module>" else "")
        return f"{where}\n    {self.source}" if self.own and self.source else where


def error_text(error: BaseException, places: Places, message: str | None = None) -> str:
    """At most 2,400 characters. `message` is what IPython has shown as the exception's."""
    message = message if type(message) is str else None  # a `__str__` may return a subclass
    text = "\n".join(_lines(error, places, message, _DEPTH))
    if len(text) <= MAX_CHARACTERS:
        return text
    half = MAX_CHARACTERS // 2 - 20
    return f"{text[:half].rpartition(chr(10))[0]}\n[... cut ...]\n{text[-half:].partition(chr(10))[2]}"


def _lines(error: BaseException, places: Places, message: str | None, depth: int) -> Iterator[str]:
    seen: list[BaseException] = []
    link = ""
    following: BaseException | None = error
    most = _OWN_FRAMES if depth == _DEPTH else _MEMBERS_FRAMES
    while following is not None and not any(following is one for one in seen) and len(seen) < _CAUSES:
        is_syntax = issubclass(type(following), SyntaxError)  # IPython's message names a file that nobody knows
        said = _message(following) if message is None or is_syntax else _bounded(message)
        said = _of_script(following) or said
        yield f"{link}{type_name(following)}: {said}".removesuffix(": ")
        yield from _notes(following)
        yield from _syntax(following, places)
        yield from _frames(following, places, most)
        if depth:
            yield from _members(following, places, depth)
        seen.append(following)
        message = None
        link, following = _cause(following)


def _read(owner: type, name: str, error: BaseException) -> Any:
    return owner.__dict__[name].__get__(error)


def _message(error: BaseException) -> str:
    """As `str(error)`, as far as that runs no code but Python's own."""
    arguments = _read(BaseException, "args", error)
    kind = type(error)
    if issubclass(kind, SyntaxError):
        return _plain(_read(SyntaxError, "msg", error))
    if issubclass(kind, OSError) and type(_read(OSError, "strerror", error)) is str:
        named = safe_text(_read(OSError, "filename", error))
        problem = f"[Errno {safe_text(_read(OSError, 'errno', error))}] {_read(OSError, 'strerror', error)}"
        return _bounded(f"{problem}: {named}" if named != "None" else problem)
    if issubclass(kind, BaseExceptionGroup):
        return _plain(_read(BaseExceptionGroup, "message", error))
    if len(arguments) == 1 and type(arguments[0]) is str and not issubclass(kind, KeyError):
        return _plain(arguments[0])
    return _bounded(", ".join(safe_text(one) for one in arguments[:6]))


def _of_script(error: BaseException) -> str:
    """Of a magic such as `%%bash`, whose message has the whole script; else empty."""
    held = _read(BaseException, "__dict__", error)
    if type(error) is not CalledProcessError or type(held) is not dict or type(held.get("cmd")) is not bytes:
        return ""
    return f"The script ended with exit status {safe_text(held.get('returncode'))}."


def _plain(text: Any) -> str:
    return _bounded(text) if type(text) is str else ""


def _bounded(message: str) -> str:
    """Its beginning and its end, of whole words: half of a key would not be known as one."""
    if len(message) <= MESSAGE_CHARACTERS:
        return message
    first, last = message[:_MESSAGE_BEGINS], message[_MESSAGE_BEGINS + 8 - MESSAGE_CHARACTERS :]
    first, last = first[: max(first.rfind(" "), first.rfind("\n"))], last[max(last.find(" "), last.find("\n"), 0) :]
    return f"{first} [...] {last.lstrip()}"


def _notes(error: BaseException) -> Iterator[str]:
    own = _read(BaseException, "__dict__", error)
    notes = own.get("__notes__") if type(own) is dict else None
    if type(notes) is list:
        yield from (_plain(note) for note in notes[:_NOTES])


def _syntax(error: BaseException, places: Places) -> Iterator[str]:
    if not issubclass(type(error), SyntaxError):
        return
    path, line, text, column = (_read(SyntaxError, name, error) for name in ("filename", "lineno", "text", "offset"))
    if type(path) is str and type(line) is int:
        yield f"  {places.name(path)[0]}, line {line}"
    if type(text) is str and text.strip():
        shown = text.rstrip("\n")[:_LINE_CHARACTERS]
        yield f"    {shown}"
        if type(column) is int and 0 < column <= len(shown) + 1:
            yield f"    {' ' * (column - 1)}^"


def _frames(error: BaseException, places: Places, most: int) -> Iterator[str]:
    """The frames in the order of the calls: the first and the last of the user's own, and of libraries where they were
    entered and where they ended."""
    told = [
        (frame, len(list(same))) for frame, same in groupby(_walk(_read(BaseException, "__traceback__", error), places))
    ]
    own = [number for number, (frame, _) in enumerate(told) if frame.own]
    left_out = len(own) - most
    if left_out > 0:  # the first one is where the cell began
        yield from _frame_lines(told[: own[0] + 1])
        yield f"  [... {left_out} more of the user's code ...]"
        told = told[own[1 - most] :]
    yield from _frame_lines(told)


def _frame_lines(frames: Sequence[tuple[_Frame, int]]) -> Iterator[str]:
    for is_own, group in groupby(frames, lambda one: one[0].own):
        lines = [frame.text + (f" ({times:,} times)" if times > 1 else "") for frame, times in group]
        if not is_own and len(lines) > _LIBRARY_FRAMES:
            lines[1:-1] = [f"[... {len(lines) - 2} more of libraries ...]"]
        yield from ("  " + line.replace("\n", "\n  ") for line in lines)


def _walk(trace: TracebackType | None, places: Places) -> Iterator[_Frame]:
    for _ in range(_MOST_FRAMES):
        if trace is None:
            return
        code, line = trace.tb_frame.f_code, trace.tb_lineno
        path = code.co_filename if type(code.co_filename) is str else "?"
        if not is_ours(path):
            place, own = places.name(path)
            source = linecache.getline(path, line).strip()[:_LINE_CHARACTERS] if own else ""
            if source.startswith(_CELL_MAGIC):
                source = ""
            yield _Frame(place, own, line, code.co_name, source)
        trace = trace.tb_next


def _members(error: BaseException, places: Places, depth: int) -> Iterator[str]:
    if not issubclass(type(error), BaseExceptionGroup):
        return
    members: Sequence[BaseException] = _read(BaseExceptionGroup, "exceptions", error)
    for number, member in enumerate(members[:_MEMBERS], 1):
        yield f"  - {number} of {len(members)}:"
        yield from ("    " + line.replace("\n", "\n    ") for line in _lines(member, places, None, depth - 1))
    if len(members) > _MEMBERS:
        kinds = Counter(type_name(member) for member in members[_MEMBERS:])
        yield "  - and " + ", ".join(f"{count} more {kind}" for kind, count in kinds.most_common(_MEMBERS))


def _cause(error: BaseException) -> tuple[str, BaseException | None]:
    if (cause := _read(BaseException, "__cause__", error)) is not None:
        return "caused by ", cause
    if _read(BaseException, "__suppress_context__", error):
        return "", None
    return "while handling ", _read(BaseException, "__context__", error)
