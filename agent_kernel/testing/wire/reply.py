"""`Reply`, one HTTP answer of a fake service, with the faults that all services share."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


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


def event_stream(events: Iterable[Any], *, done: bool = False) -> bytes:
    """Server-sent events, with their names where they have a type. `done` puts OpenAI's mark at the end."""
    lines: list[str] = []
    for event in events:
        if isinstance(event, dict) and "type" in event:
            lines.append(f"event: {event['type']}\n")
        lines.append(f"data: {json.dumps(event, ensure_ascii=False)}\n\n")
    return "".join([*lines, *(["data: [DONE]\n\n"] if done else [])]).encode()


def events(*given: Any, done: bool = False, **options: Any) -> Reply:
    """Events exactly as given. `options` are fields of `Reply`: `split_every=1`, `cut_after=300`, `hang_after=0`."""
    return Reply(body=event_stream(given, done=done), **options)


def json_reply(body: Any, **options: Any) -> Reply:
    """A body of JSON. `options` are fields of `Reply`."""
    return Reply(body=json.dumps(body, ensure_ascii=False).encode(), content_type="application/json", **options)


def error_reply(body: Any, status: int, *, times: int, headers: Mapping[str, str]) -> Reply:
    """An error answer. Of the headers' names, `_` stands for `-`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return json_reply(body, status=status, headers=named, times=times)


def failure(status: int, message: str = "the fake server fails", *, times: int = 1, **headers: str) -> Reply:
    """An error answer. Headers by keyword, `_` for `-`: `failure(429, retry_after="2")`."""
    body = {"error": {"message": message, "type": "fake_error", "param": None, "code": None}}
    return error_reply(body, status, times=times, headers=headers)


def rate_limited(times: int = 1, retry_after: str = "1") -> Reply:
    """Consecutive 429 answers."""
    return failure(429, "Rate limit reached", times=times, retry_after=retry_after)
