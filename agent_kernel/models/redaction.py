"""Keys that a service repeats in an answer go no further: not to a page, not into the log, not into a notebook.

Known secrets are replaced in text, in reasoning, and in the ids, names and arguments of calls, also where they are
split over several pieces of a stream or written with JSON's escapes. A key that is encoded otherwise is not known.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

from agent_kernel.models.base import (
    ModelItem,
    ModelTurn,
    Notice,
    ReasoningDelta,
    RequestedCall,
    TextDelta,
    ToolCallDelta,
)
from agent_kernel.models.faults import SHORTEST_SECRET

IN_PLACE = "[API key]"

Delta = TypeVar("Delta", TextDelta, ReasoningDelta)


class Redaction:
    """Of one turn."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = tuple({secret for secret in secrets if len(secret) >= SHORTEST_SECRET})
        self._held: TextDelta | ReasoningDelta | None = None
        """Text that may be the beginning of a secret."""

    def take(self, item: ModelItem) -> Iterator[ModelItem]:
        """What may be passed on. A turn is always the last."""
        match item:
            case TextDelta() | ReasoningDelta():
                yield from self._text(item)
            case ToolCallDelta():
                yield from self._rest()
                yield replace(item, name=self._clean(item.name), id=self._clean(item.id))
            case Notice():
                yield replace(item, content=self._clean(item.content))
            case ModelTurn():
                yield from self._rest()
                yield self._turn(item)

    def _text(self, item: TextDelta | ReasoningDelta) -> Iterator[ModelItem]:
        held = self._held
        if held is not None and held.type != item.type:
            yield from self._rest()
            held = None
        text = self._clean(held.content + item.content if held is not None else item.content)
        kept = self._beginning(text)
        self._held = replace(item, content=text[len(text) - kept :]) if kept else None
        if kept < len(text):
            yield replace(item, content=text[: len(text) - kept])

    def _rest(self) -> Iterator[ModelItem]:
        if self._held is not None:
            yield self._held
            self._held = None

    def _beginning(self, text: str) -> int:
        """How many of the last characters may be the beginning of a secret."""
        longest = 0
        for secret in self._secrets:
            at = text.find(secret[0], max(0, len(text) - len(secret) + 1))
            while at >= 0:
                if secret.startswith(text[at:]):
                    longest = max(longest, len(text) - at)
                    break
                at = text.find(secret[0], at + 1)
        return longest

    def _turn(self, turn: ModelTurn) -> ModelTurn:
        clean = replace(
            turn,
            content=self._clean(turn.content),
            reasoning=self._clean(turn.reasoning),
            tool_calls=tuple(map(self._call, turn.tool_calls)),
        )
        # What only the provider reads speaks of the turn as it was: without it, it is asked as by anybody else.
        tells = turn.provider is not None and self._tells(turn.provider.to_wire())
        return replace(clean, provider=None) if clean != turn or tells else turn

    def _call(self, call: RequestedCall) -> RequestedCall:
        return replace(
            call,
            id=self._clean(call.id),
            name=self._clean(call.name),
            arguments=self._arguments(call.arguments),
            extra_content=None if self._tells(call.extra_content) else call.extra_content,
        )

    def _arguments(self, arguments: str) -> str:
        clean = self._clean(arguments)
        if "\\" not in clean:
            return clean
        try:
            plain = json.dumps(json.loads(clean), ensure_ascii=False)
        except (ValueError, RecursionError):
            return clean
        escaped = [json.dumps(secret, ensure_ascii=False)[1:-1] for secret in self._secrets]
        if not any(secret in plain for secret in escaped):
            return clean
        for secret in escaped:
            plain = plain.replace(secret, IN_PLACE)
        return plain

    def _tells(self, value: Any) -> bool:
        if value is None or not self._secrets:
            return False
        text = json.dumps(value, ensure_ascii=False)
        return any(json.dumps(secret, ensure_ascii=False)[1:-1] in text for secret in self._secrets)

    def _clean(self, text: str) -> str:
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, IN_PLACE)
        return text
