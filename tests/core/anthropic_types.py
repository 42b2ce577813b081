"""Requests and events as the `anthropic` package's own types take them."""

from collections.abc import Iterable
from functools import cache
from typing import Any

from anthropic.types import RawMessageStreamEvent
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from pydantic import TypeAdapter


@cache
def _request() -> TypeAdapter[Any]:
    return TypeAdapter(MessageCreateParamsStreaming)


@cache
def _event() -> TypeAdapter[Any]:
    return TypeAdapter(RawMessageStreamEvent)


def check_request_types(body: dict[str, Any]) -> None:
    """Raises `ValidationError`."""
    _exhaust(_request().validate_python(body))


def check_event_types(event: dict[str, Any]) -> None:
    """Raises `ValidationError`."""
    _event().validate_python(event)


def _exhaust(value: Any) -> None:
    """An `Iterable` is checked only while it is read."""
    if isinstance(value, dict):
        for inner in value.values():
            _exhaust(inner)
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for inner in value:
            _exhaust(inner)
