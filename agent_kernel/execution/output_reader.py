"""`OutputReader`: makes of what a kernel publishes for one call its outputs for clients and its text for the model."""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, Literal

from agent_kernel.execution.display_text import PICTURES, display_text, widget_in
from agent_kernel.execution.long_tables import long_table
from agent_kernel.execution.stream_text import StreamText, plain
from agent_kernel.protocol.figures import left_out
from agent_kernel.protocol.views import OutputView
from agent_kernel.tools.executor import InputRequest, OutputSink

CHUNK_SECONDS = 0.1
"""The shortest time between two chunks of text while a call goes on printing."""
FIRST_CHUNK_SECONDS = 0.02
"""How long the first text after a pause waits for more."""
CHUNK_CHARACTERS = 32_768
LIVE_CHARACTERS = 1_048_576
"""Most stream text sent to clients for one call while it runs."""
END_CHARACTERS = 32_768
"""Most of the rest that is sent when the call ends or fails: results are at the end."""
DISPLAY_CHARACTERS = 16_777_216
"""Most display data sent to clients for one call. A plot has about 50,000, a table 5,000, a Plotly page 4,700,000."""
METADATA_CHARACTERS = 65_536
"""Most metadata of one display: sizes and flags, usually some hundred characters."""

PROMPT_CHARACTERS = 2_000
"""Most of what code says when it asks for a line."""

StreamName = Literal["stdout", "stderr"]
_LIVE_NOTE = "\n[More than 1 MiB was printed. What follows is shown when the call has ended.]\n"


class OutputReader:
    """One per call, for the event loop. What comes after its end is shown on its card, and not told the model."""

    def __init__(self, emit: OutputSink, send_line: Callable[[str], None] = lambda _line: None) -> None:
        self._emit = emit
        self._send_line = send_line
        self._streams = StreamText()
        self._displays: list[tuple[str | None, str]] = []
        self._errors: list[str] = []
        self._pending: list[tuple[StreamName, list[str]]] = []
        self._flush: asyncio.TimerHandle | None = None
        self._sent_at = float("-inf")
        self._sent_stream = self._sent_display = 0
        self._shown = 0  # characters of the streams that clients have, since they were cleared
        self._clear_next = False
        self._ended = False

    def read(self, kind: str, content: Mapping[str, Any]) -> None:
        """Take one message, of a kernel that is not trusted. Raises `ValueError`, `KeyError` or `TypeError`."""
        match kind:
            case "stream":
                self._stream("stderr" if content["name"] == "stderr" else "stdout", str(content["text"]))
            case "display_data" | "execute_result" | "update_display_data":
                display_id = content.get("transient", {}).get("display_id") or widget_in(content["data"])
                if kind != "update_display_data" or any(known == display_id for known, _ in self._displays):
                    self._display(content["data"], content.get("metadata") or {}, display_id)
            case "error":
                self._error(str(content["ename"]), str(content["evalue"]), "\n".join(map(str, content["traceback"])))
            case "comm_msg" if isinstance(inside := content["data"].get("state", {}).get("outputs"), list):
                # An Output widget of the call's, which is not shown here but by itself.
                self._keep_display(str(content["comm_id"]), "\n".join(map(_widget_text, inside)))
            case "input_request":
                self._send_pending()
                prompt = str(content.get("prompt", ""))[:PROMPT_CHARACTERS]
                self._emit(InputRequest(prompt, content.get("password") is True, self._send_line))
            case "clear_output":
                waits, self._clear_next = bool(content.get("wait")), True
                if not waits:
                    self._clear_if_asked()

    async def end(self, last: str) -> tuple[str, str | None]:
        """The call has ended: its whole text, with `last` after its outputs, and the file that has more of it."""
        self._send_end()
        streams, self._streams = self._streams, StreamText()
        displays, self._displays = self._displays, [(known, "") for known, _ in self._displays if known is not None]
        errors, self._errors = self._errors, []
        self._ended = True
        text, path = await asyncio.to_thread(streams.text)
        parts = (text, *(words for _, words in displays), *errors, last)
        return "\n".join(part.rstrip("\n") for part in parts if part.strip()), path

    def _stream(self, name: StreamName, text: str) -> None:
        if not text:
            return
        self._clear_if_asked()
        if not self._ended:
            self._streams.append(text)
        if self._sent_stream > LIVE_CHARACTERS:
            return
        if not self._pending or self._pending[-1][0] != name:
            self._pending.append((name, []))
        self._pending[-1][1].append(text)
        if self._flush is None:
            loop = asyncio.get_running_loop()
            due = max(self._sent_at + CHUNK_SECONDS, loop.time() + FIRST_CHUNK_SECONDS)
            self._flush = loop.call_at(due, self._send_pending)

    def _display(self, data: Mapping[str, Any], metadata: Mapping[str, Any], display_id: str | None) -> None:
        self._send_pending()
        self._clear_if_asked()
        bundle = {str(mime): value.rstrip("\n") if mime in PICTURES else value for mime, value in data.items()}
        room = DISPLAY_CHARACTERS - self._sent_display
        if (table := long_table(bundle.get("text/html"))) is not None:
            bundle["text/html"] = table.with_whole
            bundle["text/html"] = table.with_whole if _size(bundle) <= room else table.first
        size = _size(bundle)
        about = dict(metadata) if len(json.dumps(metadata)) <= METADATA_CHARACTERS else {}
        fits = size <= room
        self._keep_display(display_id, display_text(bundle, shown=fits))
        if fits:
            self._sent_display += size
        else:
            shown = display_text(bundle, shown=False)[:2_000]
            bundle, about = {"text/plain": f"{shown}\n[Too large to show here: {size:,} characters.]"}, {}
        self._emit(OutputView(kind="display", data=bundle, metadata=about, display_id=display_id))

    def _error(self, name: str, message: str, traceback: str) -> None:
        self._send_end()
        text = plain(traceback).rstrip()
        if not self._ended:
            self._errors.append(text)
        self._emit(OutputView(kind="error", text=text, data={"ename": name, "evalue": message}))

    def _keep_display(self, display_id: str | None, words: str) -> None:
        if self._ended:
            return
        for index, (known, _) in enumerate(self._displays):
            if display_id is not None and known == display_id:
                self._displays[index] = (display_id, words)
                return
        self._displays.append((display_id, words))

    def _clear_if_asked(self) -> None:
        if self._clear_next:
            self._clear_next = False
            self._pending = []
            self._shown = 0
            self._streams.clear()
            self._displays.clear()
            self._emit(OutputView(kind="clear"))

    def _send_pending(self) -> None:
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        pending, self._pending = self._pending, []
        if pending:
            self._sent_at = asyncio.get_running_loop().time()
        for name, pieces in pending:
            self._send_text(name, "".join(pieces))

    def _send_text(self, name: StreamName, text: str) -> None:
        room = LIVE_CHARACTERS - self._sent_stream
        if room < 0:
            return
        self._sent_stream += len(text)
        self._shown += min(len(text), room)
        for start in range(0, min(len(text), room), CHUNK_CHARACTERS):
            piece = text[start : min(start + CHUNK_CHARACTERS, room)]
            self._emit(OutputView(kind="stream", name=name, text=piece))
        if len(text) > room:
            self._emit(OutputView(kind="stream", name="stderr", text=_LIVE_NOTE))

    def _send_end(self) -> None:
        """Send what is printed so far; of a text that was too long to be sent while it came, the end."""
        self._send_pending()
        unsent = self._streams.length - self._shown
        self._shown = max(self._shown, self._streams.length)
        text = self._streams.end(min(unsent, END_CHARACTERS))
        if unsent > len(text):
            note = f"[{left_out(0, unsent - len(text))} here.]\n"
            self._emit(OutputView(kind="stream", name="stderr", text=note))
        if text:
            self._emit(OutputView(kind="stream", text=text))


def _size(bundle: Mapping[str, Any]) -> int:
    return sum(len(value) if isinstance(value, str) else len(json.dumps(value)) for value in bundle.values())


def _widget_text(output: Mapping[str, Any]) -> str:
    match output["output_type"]:
        case "stream":
            return plain(str(output["text"])).rstrip("\n")
        case "error":
            return plain("\n".join(map(str, output["traceback"])))
        case _:
            return display_text(output["data"], shown=True)
