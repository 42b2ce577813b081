"""What a server sends for a call, bounded: the result as text for the model and as outputs of the card, progress, and
log messages."""

import json
import time
from collections.abc import Iterator
from typing import Any

import mcp_types as types

from agent_kernel.protocol.calls import Outcome
from agent_kernel.protocol.figures import left_out, plural
from agent_kernel.protocol.views import OutputView
from agent_kernel.tools.executor import OutputSink

MOST_SHOWN = 100_000
"""The most characters of a result that a card shows. The model's text is bounded where that of any tool is."""
MOST_LOGGED = 20_000
MOST_PICTURES = 20
PROGRESS_SECONDS = 0.2
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_LINE = 1_000


class CallDisplay:
    """What the card of one call shows while the server carries it out."""

    def __init__(self, approval_id: str, emit: OutputSink) -> None:
        self._emit = emit
        self._progress_id = f"progress of {approval_id}"
        self._shown_at = 0.0
        self._left = MOST_LOGGED

    async def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Replaces what it has shown before; not more often than a person can read."""
        now = time.monotonic()
        if now - self._shown_at < PROGRESS_SECONDS and progress != total:
            return
        self._shown_at = now
        of = f" of {total:g}" if total is not None else ""
        text = f"{progress:g}{of}" + (f": {message[:_LINE]}" if message else "")
        self._emit(OutputView(kind="display", data={"text/plain": text}, display_id=self._progress_id))

    def log(self, level: str, logger: str | None, data: Any) -> None:
        said = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=str)
        self.say(f"[{level}] {f'{logger}: ' if logger else ''}{said[:_LINE]}")

    def say(self, text: str) -> None:
        """A line beside the result, of which there are not endlessly many."""
        if self._left > 0:
            self._left -= len(text) + 1
            end = text if self._left > 0 else "More messages are left out."
            self._emit(OutputView(kind="stream", name="stderr", text=f"{end}\n"))


def outcome_of(result: types.CallToolResult, emit: OutputSink) -> Outcome:
    """The outcome of a call, whose outputs are shown."""
    texts: list[str] = []
    pictures = 0
    for block in result.content:
        for part in _parts(block):
            if isinstance(part, str):
                texts.append(part)
            elif pictures < MOST_PICTURES:
                pictures += 1
                emit(part)
    texts += _structured(result.structured_content, texts)
    text = "\n".join(texts).encode(errors="replace").decode()
    if text:
        more = len(text) - MOST_SHOWN
        shown = text if more <= 0 else f"{text[:MOST_SHOWN]}\n[{left_out(0, more)} here.]"
        emit(OutputView(kind="stream", name="stdout", text=shown))
    said = text or (f"({plural(pictures, 'picture')})" if pictures else "(the server sent an empty result)")
    return Outcome("error" if result.is_error else "success", said)


def _parts(block: types.ContentBlock) -> Iterator[str | OutputView]:
    match block:
        case types.TextContent():
            yield block.text
        case types.ImageContent():
            yield _picture(block.mime_type, block.data)
        case types.AudioContent():
            yield f"[{block.mime_type[:100]}, left out]"
        case types.ResourceLink():
            about = " ".join(part for part in (block.mime_type, block.description) if part)
            yield f"Resource {block.name}: {block.uri}" + (f" ({about})" if about else "")
        case types.EmbeddedResource(resource=types.TextResourceContents() as found):
            yield f"Resource {found.uri}:\n{found.text}"
        case types.EmbeddedResource(resource=types.BlobResourceContents() as found):
            kind = found.mime_type or "no type"
            yield _picture(kind, found.blob) if kind in _PICTURES else f"[Resource {found.uri}, {kind}, left out]"


def _picture(kind: str, data: str) -> str | OutputView:
    if kind not in _PICTURES:
        return f"[{kind[:100]}, left out]"
    return OutputView(kind="display", data={kind: data})


def _structured(content: Any, texts: list[str]) -> list[str]:
    """The structured content, where the rest does not say the same, as it does from most servers."""
    if content is None or (texts and isinstance(content, dict) and content.keys() == {"result"}):
        return []  # a result that is no object: the official package wraps it so, beside the content
    for text in texts:
        try:
            if json.loads(text) == content:
                return []
        except (ValueError, RecursionError):
            continue
    return [json.dumps(content, ensure_ascii=False)]
