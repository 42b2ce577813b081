"""Checks the doubles' requests by the types of the official clients, where those are installed, as for tests."""

import re
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from pydantic import TypeAdapter

from agent_kernel.models.chat_items import REASONING

_CALL_ID = re.compile(r".{1,64}", re.DOTALL)
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NOTHING = ("none", "user", "developer", "function_call_output")
"""Items that must not follow reasoning directly, or stand between a call and its output."""

_OWN_BLOCKS = {"text", "thinking", "redacted_thinking", "tool_use"}


class WrongRequest(AssertionError):
    """A request that the official client could not have sent."""


def check_chat_request(body: dict[str, Any]) -> None:
    """Raises `WrongRequest`."""
    _check("openai.types.chat.completion_create_params.CompletionCreateParamsStreaming", _without_extras(body))


def check_responses_request(body: dict[str, Any]) -> None:
    """Raises `WrongRequest`."""
    _check("openai.types.responses.response_create_params.ResponseCreateParamsStreaming", body)
    _check_order(body["input"])


def check_messages_request(body: dict[str, Any]) -> None:
    """Raises `WrongRequest`. The blocks of an answer that only the service makes, of its own tools and of types that
    are newer than the package, are left out: the service takes back what it sent."""
    messages = [_own_blocks(message) for message in body.get("messages", ())]
    _check("anthropic.types.message_create_params.MessageCreateParamsStreaming", {**body, "messages": messages})


def _own_blocks(message: dict[str, Any]) -> dict[str, Any]:
    """The message with the blocks that the client makes."""
    if message["role"] != "assistant" or isinstance(message["content"], str):
        return message
    return {**message, "content": [one for one in message["content"] if one["type"] in _OWN_BLOCKS]}


@cache
def _adapter(kind: str) -> TypeAdapter[Any] | None:
    module, _, name = kind.rpartition(".")
    if find_spec(kind.partition(".")[0]) is None:
        return None
    return TypeAdapter(getattr(import_module(module), name))


def _check(kind: str, body: dict[str, Any]) -> None:
    """Types ignore unknown fields and validate lists lazily, so the validated form is read to its end and must equal
    the request."""
    adapter = _adapter(kind)
    if adapter is None:
        return
    try:
        made = _read(adapter.validate_python(body))
    except ValueError as error:
        raise WrongRequest(str(error)) from None
    if made != body:
        raise WrongRequest(f"The client's types do not have all of {body}, of which they keep {made}")


def _check_order(items: list[dict[str, Any]]) -> None:
    """Check what OpenAI's service refuses besides wrong types: calls without outputs, outputs without calls, ids and
    names that are too long, and reasoning that nothing follows."""
    waiting: list[str] = []
    for item, following in zip(items, [*items[1:], {"type": "none"}], strict=True):
        match item["type"]:
            case "reasoning" if following.get("role", following["type"]) in _NOTHING:
                raise WrongRequest(f"Item {item['id']!r} was provided without its required following item.")
            case "function_call":
                if not (_CALL_ID.fullmatch(item["call_id"]) and _NAME.fullmatch(item["name"])):
                    raise WrongRequest(f"Invalid call_id or name: {item!r}")
                waiting.append(item["call_id"])
            case "function_call_output" if item["call_id"] not in waiting:
                raise WrongRequest(f"No tool call found for function call output {item['call_id']!r}.")
            case "function_call_output":
                waiting.remove(item["call_id"])
            case _ if waiting and item.get("role") in _NOTHING:
                break
    if waiting:
        raise WrongRequest(f"No tool output found for function call {waiting[0]!r}.")


def _read(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _read(one) for name, one in value.items()}
    if isinstance(value, str | int | float) or value is None:
        return value
    return [_read(one) for one in value]


def _without_extras(body: dict[str, Any]) -> dict[str, Any]:
    """The messages without fields that only other services want back."""
    return body | {"messages": [_message(message) for message in body["messages"]]}


def _message(message: dict[str, Any]) -> dict[str, Any]:
    calls = [_without(call, "extra_content") for call in message.get("tool_calls", ())]
    return _without(message, *REASONING) | ({"tool_calls": calls} if calls else {})


def _without(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}
