"""Removes keys from what models and services say, and from what is read for them, so that none reaches a page, the log
or a notebook.

Known secrets are replaced in text, in reasoning, and in the ids, names and arguments of calls, also if they are split
over pieces of a stream or written with the escapes of JSON, Python, HTML or URLs. Keys in other encodings are not
recognised.
"""

import html
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from agent_kernel.models.base import (
    Delay,
    ModelItem,
    ModelTurn,
    Notice,
    ReasoningDelta,
    RequestedCall,
    TextDelta,
    ToolCallDelta,
)

IN_PLACE = "[API key]"
SHORTEST_SECRET = 8
"""The shortest key, in characters, that is redacted. Shorter ones are placeholders for local servers."""
TELLING_CHARACTERS = 20
"""So much of a secret's beginning is replaced as the whole is, because descriptions cut long texts off."""

_KEY_SHAPES = re.compile(r"(?i)\b(?:bearer\s+\S+|(?:sk|gsk|xai)[-_](?P<rest>[\w*.\-]{6,}))")
_WHOLE_KEYS = re.compile(
    r"\b(?:(?:sk|gsk|xai)-(?=[\w-]{0,255}\d)[\w-]{16,255}|sk_(?:live|test)_\w{16,255}|gh[pousr]_[A-Za-z0-9]{20,255}"
    r"|github_pat_\w{20,255}|hf_[A-Za-z0-9]{20,255}|AKIA[0-9A-Z]{16}|AIza[\w-]{35}|xox[abeprs]-[\w-]{10,255}"
    r"|eyJ[\w-]{8,2000}\.eyJ[\w-]{8,8000}\.[\w-]{8,2000})"
)
"""Keys and tokens of services, of a length that no word of a program has; the last is a JSON Web Token."""
_REST = r"[\w.~%+/=-]*"


class Secrets:
    """A set of secrets, and how to replace them in texts. Linear in the text's length."""

    def __init__(self, texts: Iterable[str]) -> None:
        known = {text for text in texts if len(text) >= SHORTEST_SECRET}
        forms = {form for text in known for form in _forms(text)}
        self._forms = sorted(forms, key=len, reverse=True)  # one may be the beginning of another
        begun = [re.escape(form[:TELLING_CHARACTERS]) for form in self._forms if len(form) > TELLING_CHARACTERS]
        self._cut_off = re.compile(f"(?:{'|'.join(begun)}){_REST}") if begun else None

    def clean(self, text: str) -> str:
        """A whole text without secrets, and without those that were cut off."""
        text = self.replace(text)
        return text if self._cut_off is None else self._cut_off.sub(IN_PLACE, text)

    def replace(self, text: str) -> str:
        """A text, or a piece of one, without the secrets that are whole in it."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, IN_PLACE)
        return text

    def beginning(self, text: str) -> int:
        """How many characters at the end may be the beginning of a secret."""
        longest = 0
        for form in self._forms:
            at = text.find(form[0], max(0, len(text) - len(form) + 1))
            while at >= 0:
                if form.startswith(text[at:]):
                    longest = max(longest, len(text) - at)
                    break
                at = text.find(form[0], at + 1)
        return longest

    def are_in(self, value: Any) -> bool:
        """Whether one is in a JSON value."""
        if value is None or not self._forms:
            return False
        text = json.dumps(value, ensure_ascii=False)
        return any(form in text for form in self._forms)


def _forms(secret: str) -> Iterator[str]:
    """A secret as it may be written; most are the same in all of these."""
    yield secret
    yield quote(secret, safe="")
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield json.dumps(secret)[1:-1]
    yield repr(secret)[1:-1]
    yield html.escape(secret)


def scrub(text: str, secrets: Iterable[str]) -> str:
    """`text` with all `secrets`, and everything that looks like an API key, replaced."""
    return hide_keys(_KEY_SHAPES.sub(_hide, Secrets(secrets).clean(text)))


def hide_keys(text: str) -> str:
    """A program or its output without what certainly is a key: `_KEY_SHAPES` has words of programs too."""
    return _WHOLE_KEYS.sub(IN_PLACE, text)


def _hide(found: re.Match[str]) -> str:
    """The replacement for a match. One without digits, such as sk-learn-like, is a word and stays. As a part of the
    pattern this check would take quadratic time."""
    rest = found["rest"]
    return found[0] if rest is not None and not any(sign == "*" or sign.isdecimal() for sign in rest) else IN_PLACE


class Redaction:
    """Redacts the items of one turn."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = Secrets(secrets)
        self._held: TextDelta | ReasoningDelta | None = None
        """Text held back because it may be the beginning of a secret."""

    def take(self, item: ModelItem) -> Iterator[ModelItem]:
        """The items that may be passed on. A turn is always the last."""
        match item:
            case TextDelta() | ReasoningDelta():
                yield from self._text(item)
            case ToolCallDelta():
                yield from self._rest()
                yield replace(item, name=self._secrets.replace(item.name), id=self._secrets.replace(item.id))
            case Notice():
                yield replace(item, content=self._secrets.replace(item.content))
            case Delay():
                yield replace(item, cause=self._secrets.replace(item.cause))
            case ModelTurn():
                yield from self._rest()
                yield self._turn(item)

    def _text(self, item: TextDelta | ReasoningDelta) -> Iterator[ModelItem]:
        held = self._held
        if held is not None and held.type != item.type:
            yield from self._rest()
            held = None
        text = self._secrets.replace(held.content + item.content if held is not None else item.content)
        kept = self._secrets.beginning(text)
        self._held = replace(item, content=text[len(text) - kept :]) if kept else None
        shown = text[: len(text) - kept]
        if shown:
            yield item if shown == item.content else replace(item, content=shown)

    def _rest(self) -> Iterator[ModelItem]:
        if self._held is not None:
            yield self._held
            self._held = None

    def _turn(self, turn: ModelTurn) -> ModelTurn:
        clean = replace(
            turn,
            content=self._secrets.replace(turn.content),
            reasoning=self._secrets.replace(turn.reasoning),
            failure=self._secrets.replace(turn.failure),
            tool_calls=tuple(map(self._call, turn.tool_calls)),
        )
        if turn.provider is None:
            return clean
        # Those of Chat Completions stand by themselves; the others describe the turn as it was.
        misfit = clean != turn and turn.provider.api != "chat"
        return replace(clean, provider=None) if misfit or self._secrets.are_in(turn.provider.to_wire()) else clean

    def _call(self, call: RequestedCall) -> RequestedCall:
        return replace(
            call,
            id=self._secrets.replace(call.id),
            name=self._secrets.replace(call.name),
            arguments=self._arguments(call.arguments),
        )

    def _arguments(self, arguments: str) -> str:
        clean = self._secrets.replace(arguments)
        if "\\" not in clean:
            return clean
        try:
            plain = json.dumps(json.loads(clean), ensure_ascii=False)
        except (ValueError, RecursionError):
            return clean
        replaced = self._secrets.replace(plain)
        return clean if replaced == plain else replaced
