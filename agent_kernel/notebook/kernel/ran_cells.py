"""`RanCells` keeps what the cells that ran last have printed and shown, and how they failed, as text.

Events of IPython's say which cell ran and how it ended; hooks of ipykernel's streams and displays see each message
before it is sent. Cells that ran before are known from IPython's history alone, as are the streams of plain IPython.
"""

import contextlib
import logging
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from agent_kernel.execution.display_text import display_text
from agent_kernel.execution.stream_text import plain
from agent_kernel.notebook.context.exceptions import Places, error_text
from agent_kernel.notebook.context.told_cells import CELLS, STREAM_CHARACTERS, RanCell
from agent_kernel.notebook.execution.runner import current_entry
from agent_kernel.notebook.inspect import Describer
from agent_kernel.notebook.kernel.environment import message_of
from agent_kernel.notebook.kernel.idle_interrupts import PROMPT
from agent_kernel.notebook.plain_values import type_name

_log = logging.getLogger(__name__)
_KEPT = 3 * CELLS
_LOOKED_AT = 100
_TAIL = 4 * STREAM_CHARACTERS
_TRACEBACK = 2_400
_STREAMS = {"out_stream": "stdout", "err_stream": "stderr"}


@dataclass(slots=True)
class _Outputs:
    printed: dict[str, str] = field(default_factory=dict)
    shown: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Begun:
    info: Any
    """What IPython says of the cell."""
    number: int
    last_error: Any
    """Before it."""


@dataclass(frozen=True, slots=True)
class _Ended:
    source: str
    cell_id: str | None
    error: str | None
    outputs: _Outputs


class RanCells:
    """One per kernel process. Read in any thread."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell: Any = shell
        self._ended: OrderedDict[int, _Ended] = OrderedDict()
        self._outputs: OrderedDict[str, _Outputs] = OrderedDict()
        """By the message that runs a cell."""
        self._lock = threading.Lock()
        self._begun: dict[int, _Begun] = {}
        """The cells that run, by thread: beside the one of the notebook there may be one in each subshell."""
        self._before = self._last_error()
        shell.events.register("pre_run_cell", self._on_start)
        shell.events.register("post_run_cell", self._on_end)
        display_pub: Any = shell.display_pub
        if hasattr(display_pub, "register_hook"):  # as ipykernel's
            for stream in (sys.stdout, sys.stderr):
                self._watch(stream)
            display_pub.register_hook(self._on_display)

    def _last_error(self) -> dict[int, str]:
        """The last error before this was here, by the number of its cell: Python still has it."""
        value, known = getattr(sys, "last_value", None), getattr(self._shell.history_manager, "exceptions", {})
        number = max(known, default=0)
        if value is None or self._stored(number).get("ename") != type_name(value).rpartition(".")[2]:
            return {}
        return {number: self._text_of(value, self._stored(number).get("evalue"))}

    def _watch(self, stream: Any) -> None:
        """Its hooks belong to the thread that sends."""
        if getattr(stream, "pub_thread", None) is not None:
            stream.pub_thread.schedule(lambda: stream.register_hook(self._on_stream))

    def _on_stream(self, message: Any) -> Any:
        outputs, content = self._outputs_of(message), message["content"]
        if outputs is not None:
            with self._lock:
                outputs.printed[content["name"]] = (outputs.printed.get(content["name"], "") + content["text"])[-_TAIL:]
        return message

    def _on_display(self, message: Any) -> Any:
        outputs = self._outputs_of(message)
        if outputs is not None and message["header"]["msg_type"] == "display_data" and len(outputs.shown) < CELLS:
            with contextlib.suppress(Exception):  # a bundle that the user's code has made is displayed in any case
                outputs.shown.append(display_text(message["content"]["data"], shown=True) or "[a picture]")
        return message

    def _outputs_of(self, message: Any) -> _Outputs | None:
        return self._outputs.get((message.get("parent_header") or {}).get("msg_id", ""))

    def _on_start(self, info: Any) -> None:
        if info.store_history and current_entry.get() is None:
            number = len(self._shell.history_manager.input_hist_raw)
            self._begun[threading.get_ident()] = _Begun(info, number, getattr(sys, "last_value", None))
            self._outputs[self._message_id()] = _Outputs()
            while len(self._outputs) > _KEPT:
                self._outputs.popitem(last=False)

    def _on_end(self, result: Any) -> None:
        """A hook of IPython's, which calls it after nested code and that of a call too. There is no result where the
        cell was interrupted, and another one where IPython failed to show its exception. Magics such as `%run` show an
        exception and end the cell without one."""
        begun = self._begun.get(threading.get_ident())
        if begun is None or (result is not None and result.info.raw_cell != begun.info.raw_cell):
            return
        del self._begun[threading.get_ident()]
        info, number, error = begun.info, begun.number, None
        if (kept := self._shell.last_execution_result) is not None and kept.info is info:
            result = kept
        if result is not None:
            error = result.error_in_exec if result.error_in_exec is not None else result.error_before_exec
        if error is None and (shown := getattr(sys, "last_value", None)) is not begun.last_error:
            error = shown
        self._ended[number] = _Ended(
            source=info.raw_cell,
            cell_id=info.cell_id,
            error=self._text_of(error, self._stored(number).get("evalue")) if error is not None else None,
            outputs=self._outputs.get(self._message_id(), _Outputs()),
        )
        while len(self._ended) > _KEPT:
            self._ended.popitem(last=False)

    def _message_id(self) -> str:
        return str((message_of(self._shell).get("header") or {}).get("msg_id", ""))

    def _text_of(self, error: BaseException, message: str | None) -> str:
        def cell_name(path: str) -> str | None:
            found = self._shell.compile.format_code_name(path)
            return " ".join(found) if found is not None else None

        try:
            return error_text(error, Places(cell_name, str(Path.cwd())), message)
        except Exception:  # noqa: BLE001 -- IPython would print it below the output of the user's cell
            _log.warning("An exception could not be described.", exc_info=True)
            return type_name(error)

    def _stored(self, number: int) -> dict[str, Any]:
        """What IPython keeps of the exception that it has shown; nothing in versions before 9."""
        stored: dict[str, Any] = getattr(self._shell.history_manager, "exceptions", {}).get(number, {})
        return stored

    def last(self, own: int | None) -> list[RanCell]:
        """The last cells in the order of their numbers, without prompts and the cell that is numbered `own`."""
        history = self._shell.history_manager
        if history is None:
            return []
        describer = Describer()
        sources: list[str] = list(history.input_hist_raw)
        numbers = range(max(1, len(sources) - _LOOKED_AT), len(sources))
        said = [number for number in numbers if number != own and _is_told(sources[number])]
        return [self._cell(number, sources[number], describer) for number in said[-_KEPT:]]

    def find(self, name: int | str) -> tuple[RanCell | None, bool]:
        """The cell that ran last with this number or id, and whether its outputs are known too."""
        known = [number for number, ended in list(self._ended.items()) if name in (number, ended.cell_id)]
        if known:
            return self._cell(known[-1], "", Describer()), True
        history = self._shell.history_manager
        sources: list[str] = list(history.input_hist_raw) if history is not None else []
        if not isinstance(name, int) or not 0 < name < len(sources) or not sources[name].strip():
            return None, False
        return self._cell(name, sources[name], Describer()), False

    def _cell(self, number: int, source: str, describer: Describer) -> RanCell:
        ended = self._ended.get(number)
        printed, shown, error, cell_id = self._of_history(number), list[str](), self._traceback(number), None
        if ended is not None:
            source, cell_id, error = ended.source, ended.cell_id, ended.error
            with self._lock:
                printed = {**printed, **ended.outputs.printed}
            shown = list(ended.outputs.shown)
        if number in (values := self._shell.history_manager.output_hist):
            text = self._shell.history_manager.output_hist_reprs.get(number)
            value = describer.short(values[number])
            shown.append(f"{value}\n{text}" if type(text) is str else value)
        return RanCell(number, source, cell_id, tuple(printed.items()), tuple(shown), error)

    def _of_history(self, number: int) -> dict[str, str]:
        """What plain IPython has kept of the streams. Its dictionary makes what it is asked for."""
        kept = dict(getattr(self._shell.history_manager, "outputs", {})).get(number, [])
        printed = [(_STREAMS.get(one.output_type), one.bundle.get("stream")) for one in kept]
        return {name: "".join(_texts(pieces[-_TAIL:]))[-_TAIL:] for name, pieces in printed if name and pieces}

    def _traceback(self, number: int) -> str | None:
        """How a cell failed before this was here: as IPython has shown it."""
        stored = self._stored(number)
        if not stored or number in self._before:
            return self._before.get(number)
        head = ": ".join(_texts([stored.get("ename"), stored.get("evalue")]))
        lines = plain("\n".join(_texts(stored.get("traceback", ()))))
        return f"{head[:_TRACEBACK]}\n{lines[-_TRACEBACK:]}"


def _texts(values: Iterable[Any]) -> list[str]:
    """Those that are texts: of a subclass, and of what else an exception's own traceback has, code would run."""
    return [value for value in values if type(value) is str]


def _is_told(source: str) -> bool:
    return bool(source.strip()) and source.split(maxsplit=1)[:1] != [PROMPT]
