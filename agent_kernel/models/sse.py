"""Parses server-sent events from raw bytes as they arrive.

This is our own code, because the maintained readers (`httpx-sse`, `sseclient-py`, the `openai` client's decoder) work
on decoded lines of a whole response object, which costs more than parsing the JSON. The rules are those of the HTML
standard, section 9.2.6, with one exception: an event without its closing blank line counts, because servers omit it.
"""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class EventReader:
    """Turns chunks, split anywhere, into the data of events. Fields other than `data` are ignored."""

    def __init__(self) -> None:
        self._head = b""  # the first bytes, until it is clear whether they are a byte order mark
        self._started = False
        self._parts: list[bytes] = []  # a line that has not ended yet; joined once, so a long line costs linear time
        self._skip_newline = False  # the last chunk ended in CR, so a LF at the start of the next belongs to it
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of each event that `chunk` completes."""
        chunk = self._without_mark(chunk)
        if not chunk:
            return []
        if self._skip_newline:
            self._skip_newline = False
            if chunk[0] == 0x0A:
                chunk = chunk[1:]
        end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
        if not end:
            self._parts.append(chunk)
            return []
        self._skip_newline = end == len(chunk) and chunk[end - 1] == 0x0D
        block = chunk[:end]
        if self._parts:
            block = b"".join((*self._parts, block))
            self._parts.clear()
        if end < len(chunk):
            self._parts.append(chunk[end:])
        return self._lines(block)

    def finish(self) -> list[bytes]:
        """The data of a last event without its blank line, if there is one."""
        rest = b"".join(self._parts)
        self._parts.clear()
        return self._lines(rest + b"\n\n")

    def _without_mark(self, chunk: bytes) -> bytes:
        if self._started:
            return chunk
        chunk = self._head + chunk
        if len(chunk) < len(BYTE_ORDER_MARK) and BYTE_ORDER_MARK.startswith(chunk):
            self._head = chunk
            return b""
        self._started = True
        return chunk.removeprefix(BYTE_ORDER_MARK)

    def _lines(self, block: bytes) -> list[bytes]:
        events: list[bytes] = []
        data = self._data
        for line in block.splitlines():  # on bytes this splits at CR, LF and CRLF only
            if not line:
                if data:
                    events.append(data[0] if len(data) == 1 else b"\n".join(data))
                    data.clear()
            elif line.startswith(b"data:"):
                data.append(line[6:] if line[5:6] == b" " else line[5:])
        return events
