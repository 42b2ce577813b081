"""Removes keys from models' answers, so that none reaches a page, the log or a notebook.

Known secrets are replaced in text, in reasoning, and in the ids, names and arguments of calls, also if they are split
over pieces of a stream or written with JSON's escapes. Keys in other encodings are not recognised.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

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


class Redaction:
    """Redacts the items of one turn."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = tuple({secret for secret in secrets if len(secret) >= SHORTEST_SECRET})
        self._held: TextDelta | ReasoningDelta | None = None
        """Text held back because it may be the beginning of a secret."""

    def take(self, item: ModelItem) -> Iterator[ModelItem]:
        """The items that may be passed on. A turn is always the last."""
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
        shown = text[: len(text) - kept]
        if shown:
            yield item if shown == item.content else replace(item, content=shown)

    def _rest(self) -> Iterator[ModelItem]:
        if self._held is not None:
            yield self._held
            self._held = None

    def _beginning(self, text: str) -> int:
        """How many characters at the end may be the beginning of a secret."""
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
        # Provider items describe the unredacted turn, so they are dropped.
        leaks = turn.provider is not None and self._has_secret(turn.provider.to_wire())
        return replace(clean, provider=None) if clean != turn or leaks else turn

    def _call(self, call: RequestedCall) -> RequestedCall:
        return replace(
            call,
            id=self._clean(call.id),
            name=self._clean(call.name),
            arguments=self._arguments(call.arguments),
            extra_content=None if self._has_secret(call.extra_content) else call.extra_content,
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

    def _has_secret(self, value: Any) -> bool:
        if value is None or not self._secrets:
            return False
        text = json.dumps(value, ensure_ascii=False)
        return any(json.dumps(secret, ensure_ascii=False)[1:-1] in text for secret in self._secrets)

    def _clean(self, text: str) -> str:
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, IN_PLACE)
        return text
