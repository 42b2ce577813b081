"""`OutputCapture`: collects what one call prints, shows and raises, as outputs for clients and text for the model."""

import _thread
import base64
import codecs
import io
import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from agent_kernel.notebook.execution.descriptors import StreamName
from agent_kernel.notebook.execution.display_text import PICTURES, display_text
from agent_kernel.notebook.execution.output_widgets import OutputWidget
from agent_kernel.notebook.execution.transcript import Transcript, plain
from agent_kernel.protocol.views import OutputView

CHUNK_SECONDS = 0.1
"""The shortest time between two chunks of text while a call goes on printing."""
FIRST_CHUNK_SECONDS = 0.02
"""How long the first text after a pause waits for more."""
CHUNK_CHARACTERS = 32_768
LIVE_CHARACTERS = 1_048_576
"""Most stream text sent to clients for one call."""
DISPLAY_CHARACTERS = 16_777_216
"""Most display data sent to clients for one call. A plot has about 50,000, a table 5,000, a Plotly page 4,700,000."""
METADATA_CHARACTERS = 65_536
"""Most metadata of one display: sizes and flags, usually some hundred characters."""

_LIVE_NOTE = "\n[The live output stops here, at 1 MiB. The call goes on; the model gets the beginning and the end.]\n"


class OutputCapture:
    """Collects the outputs of one call. Thread-safe: threads that the call starts print here too.

    `emit` receives each output in order, while a lock is held: it must be quick and must not print.
    """

    def __init__(self, emit: Callable[[OutputView], None]) -> None:
        self._emit = emit
        self._lock = threading.RLock()
        self._wake = threading.Condition(self._lock)
        self._transcript = Transcript()
        self._displays: list[tuple[str | None, str]] = []
        self._errors: list[str] = []
        self._pending: list[tuple[StreamName, list[str]]] = []
        self._pending_length = 0
        self._sent_at = 0.0
        self._sent_stream = 0
        self._sent_display = 0
        self._clear_next = False
        self._inside: list[OutputWidget] = []
        self._closed = False
        self._has_flusher = False

    @property
    def output_file(self) -> str | None:
        return self._transcript.path

    def write(self, name: StreamName, text: str) -> None:
        if not text:
            return
        with self._lock:
            if self._closed:
                return
            if self._inside:
                self._transcript.append(text)
                self._inside[-1].write(name, text)
                return
            self._clear_if_asked()
            self._transcript.append(text)
            if self._sent_stream + self._pending_length > LIVE_CHARACTERS:
                return
            was_empty = not self._pending
            if was_empty or self._pending[-1][0] != name:
                self._pending.append((name, []))
            self._pending[-1][1].append(text)
            self._pending_length += len(text)
            if self._pending_length >= CHUNK_CHARACTERS:
                self._send_pending()
            elif was_empty:
                self._flush_soon()

    def display(
        self, data: Mapping[str, Any], metadata: Mapping[str, Any] | None = None, display_id: str | None = None
    ) -> None:
        """Record a MIME bundle; a later one with the same `display_id` replaces it.

        After the call's end it is still shown on the call's card, but is no part of the text for the model.
        """
        bundle = {mime: _json_value(mime, value) for mime, value in data.items()}
        about = _bounded_metadata(metadata or {})
        with self._lock:
            size = sum(len(value) if isinstance(value, str) else len(json.dumps(value)) for value in bundle.values())
            if self._inside:
                fits = self._inside[-1].display(bundle, about, display_id, size)
                self._keep_display(display_id, display_text(bundle, shown=fits))
                return
            self._send_pending()
            self._clear_if_asked()
            too_large = self._sent_display + size > DISPLAY_CHARACTERS
            if not too_large:
                self._sent_display += size
            self._keep_display(display_id, display_text(bundle, shown=not too_large))
            if too_large:
                shown = display_text(bundle, shown=False)[:2_000]
                bundle = {"text/plain": f"{shown}\n[Too large to show here: {size:,} characters.]"}
                about = {}
            self._emit(OutputView(kind="display", data=bundle, metadata=about, display_id=display_id))

    def enter(self, widget: OutputWidget) -> None:
        """Until `leave`, outputs go into this widget."""
        with self._lock:
            self._send_pending()
            self._inside.append(widget)

    def leave(self) -> None:
        with self._lock:
            self._inside.pop().sync()

    def knows(self, display_id: str) -> bool:
        with self._lock:
            return any(known == display_id for known, _ in self._displays)

    def clear(self, wait: bool) -> None:
        with self._lock:
            if self._inside:
                self._inside[-1].clear(wait)
                return
            self._clear_next = True
            if not wait:
                self._clear_if_asked()

    def error(self, name: str, message: str, traceback: str) -> None:
        with self._lock:
            self._send_pending()
            text = plain(traceback).rstrip()
            self._errors.append(text)
            if self._inside:
                self._inside[-1].error(name, message, text)
                return
            self._emit(OutputView(kind="error", text=text, data={"ename": name, "evalue": message}))

    @property
    def has_error(self) -> bool:
        return bool(self._errors)

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Send the pending text. Text that is written later is dropped."""
        with self._lock:
            if not self._closed:
                self._send_pending()
                self._closed = True
                self._transcript.close()
                self._wake.notify_all()

    def text_for_model(self) -> str:
        """Streams in order, then displays, then the traceback; empty where there was nothing."""
        with self._lock:
            parts = [self._transcript.text(), *(words for _, words in self._displays), *self._errors]
        return "\n".join(part.rstrip("\n") for part in parts if part.strip())

    def _keep_display(self, display_id: str | None, words: str) -> None:
        if display_id is not None:
            for index, (known, _) in enumerate(self._displays):
                if known == display_id:
                    self._displays[index] = (display_id, words)
                    return
        self._displays.append((display_id, words))

    def _clear_if_asked(self) -> None:
        if self._clear_next:
            self._clear_next = False
            self._pending, self._pending_length = [], 0
            self._transcript.clear()
            self._displays.clear()
            self._emit(OutputView(kind="clear"))

    def _send_pending(self) -> None:
        pending, self._pending, self._pending_length = self._pending, [], 0
        if not pending:
            return
        self._sent_at = time.monotonic()
        for name, pieces in pending:
            self._send_text(name, "".join(pieces))

    def _send_text(self, name: StreamName, text: str) -> None:
        room = LIVE_CHARACTERS - self._sent_stream
        if room < 0:
            return
        self._sent_stream += len(text)
        for start in range(0, min(len(text), room), CHUNK_CHARACTERS):
            piece = text[start : min(start + CHUNK_CHARACTERS, room)]
            self._emit(OutputView(kind="stream", name=name, text=piece))
        if len(text) > room:
            self._emit(OutputView(kind="stream", name="stderr", text=_LIVE_NOTE))

    def _flush_soon(self) -> None:
        if not self._has_flusher:
            self._has_flusher = True
            # Not `Thread.start`, which waits until the new thread has had the interpreter: a millisecond each time.
            _thread.start_new_thread(self._flush_loop, ())
        else:
            self._wake.notify_all()

    def _flush_loop(self) -> None:
        with self._lock:
            while not self._closed:
                if not self._pending:
                    self._wake.wait()
                    continue
                due = max(self._sent_at + CHUNK_SECONDS, time.monotonic() + FIRST_CHUNK_SECONDS)
                # Released while waiting: more text joins this chunk.
                while not self._closed and (left := due - time.monotonic()) > 0:
                    self._wake.wait(left)
                self._send_pending()


CaptureOf = Callable[[], OutputCapture]
"""The capture that an output of the running code belongs to: several calls may run side by side."""


class CapturedStream(io.TextIOBase):
    """Replaces `sys.stdout` or `sys.stderr` while a call runs."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, name: StreamName, capture: CaptureOf, descriptor: int | None) -> None:
        self.name = f"<{name}>"
        self._descriptor = descriptor
        self._stream: StreamName = name
        self._capture = capture
        self.buffer = _BinaryStream(self)

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        """For `subprocess.run(..., stdout=sys.stdout)`; unsupported where descriptors are not captured."""
        return super().fileno() if self._descriptor is None else self._descriptor

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self._capture().write(self._stream, text)
        return len(text)

    def flush(self) -> None:
        """Does nothing: text is sent soon in any case, and progress bars flush at each step."""

    def close(self) -> None:
        """Does nothing: a call can't close the stream."""


class _BinaryStream(io.BufferedIOBase):
    """`sys.stdout.buffer`. A character that is split between two writes is written when it is complete."""

    def __init__(self, stream: CapturedStream) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        raw = bytes(data)
        self._stream.write(self._decode(raw))
        return len(raw)


def _json_value(mime: str, value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, str):
        return value.rstrip("\n") if mime in PICTURES else value
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError):
        return str(value)


def _bounded_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata, or `{}` if it is too large or not JSON: the display can be shown without it."""
    try:
        text = json.dumps(dict(metadata), allow_nan=False)
    except (TypeError, ValueError):
        return {}
    return json.loads(text) if len(text) <= METADATA_CHARACTERS else {}
