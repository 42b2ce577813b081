"""Parses server-sent events from raw bytes as they arrive.

The rules are those of the HTML standard, section 9.2.6, with one exception: an event without its closing blank line
counts, because servers omit it.
"""


class EventReader:
    """Turns chunks, split anywhere, into the data of events. Fields other than `data` are ignored."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        """A line that has not ended yet; joined once, so a long line costs linear time."""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of each event that `chunk` completes."""
        # A CR at the very end waits, because the LF that belongs to it may come next.
        end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r", 0, len(chunk) - 1)) + 1 if chunk else 0
        if not end:
            self._rest.append(chunk)
            return []
        block = b"".join((*self._rest, chunk[:end]))
        self._rest = [chunk[end:]]
        return self._lines(block)

    def finish(self) -> list[bytes]:
        """The data of a last event without its blank line, if there is one."""
        rest, self._rest = b"".join(self._rest), []
        return self._lines(rest + b"\n\n")

    def _lines(self, block: bytes) -> list[bytes]:
        events: list[bytes] = []
        data = self._data
        for line in block.splitlines():  # on bytes this splits at CR, LF and CRLF only
            if not line:
                if data:
                    events.append(b"\n".join(data))
                    data.clear()
            elif line.startswith(b"data:"):
                data.append(line[5:].removeprefix(b" "))
        return events
