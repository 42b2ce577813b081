"""`Reply`, one HTTP answer of a fake service, with the faults that all services share."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP answer of the fake server."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "text/event-stream"
    split_every: int | None = None
    """Bytes in each write to the socket; `None` means one write for each line that ends an event."""
    pause: float = 0.0
    """Seconds between writes."""
    cut_after: int | None = None
    """Drop the connection after this many bytes."""
    hang_after: int | None = None
    """Fall silent after this many bytes, until the client leaves."""
    times: int = 1
    """How many consecutive requests get this answer."""


def failure(status: int, message: str = "the fake server fails", *, times: int = 1, **headers: str) -> Reply:
    """An error answer. Headers by keyword, `_` for `-`: `failure(429, retry_after="2")`."""
    body = json.dumps({"error": {"message": message, "type": "fake_error", "param": None, "code": None}}).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(body=body, status=status, headers=named, content_type="application/json", times=times)


def rate_limited(times: int = 1, retry_after: str = "1") -> Reply:
    """Consecutive 429 answers."""
    return failure(429, "Rate limit reached", times=times, retry_after=retry_after)
