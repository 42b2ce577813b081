"""A turn in which the service paused: it is asked again with what it has said, and its parts are one turn."""

from collections.abc import Sequence
from dataclasses import fields, replace

from agent_kernel.models.base import PROVIDER, ModelRequest, ModelTurn, TokenUsage, WireMessage
from agent_kernel.models.provider_items import CallItem, Item, TextItem


def continued(request: ModelRequest, part: ModelTurn) -> ModelRequest:
    """The request with what was said so far, for the service to go on with it."""
    said: WireMessage = {"role": "assistant", "content": part.content}
    if part.provider is not None:
        said[PROVIDER] = part.provider.to_wire()
    return replace(request, messages=[*request.messages, said])


def joined(parts: Sequence[ModelTurn]) -> ModelTurn:
    """Only the last part has calls: a service does not pause for its own tools while it waits for ours."""
    if len(parts) == 1:
        return parts[0]
    provider = next((part.provider for part in parts if part.provider is not None), None)
    return replace(
        parts[-1],
        content="".join(part.content for part in parts),
        reasoning="".join(part.reasoning for part in parts),
        usage=TokenUsage(*(sum(getattr(part.usage, field.name) for part in parts) for field in fields(TokenUsage))),
        provider=provider and replace(provider, items=tuple(item for part in parts for item in _items(part))),
    )


def _items(part: ModelTurn) -> Sequence[Item]:
    if part.provider is not None:
        return part.provider.items
    return [TextItem(len(part.content)), *map(CallItem, range(len(part.tool_calls)))]
