"""Tells reasoning that comes within an answer's text, between tags, from the answer itself.

Servers that are not told how their model reasons pass its tags on. Templates such as those of DeepSeek-R1 and Qwen put
the opening tag into the prompt, so that only the closing one comes.
"""

import re

from agent_kernel.models.answer_reading import Deltas

_TAGS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",  # Gemini
    "<seed:think>": "</seed:think>",
    "[THINK]": "[/THINK]",  # Mistral
}
_LONE = "</think>"
"""The tag that comes without an opening one."""
_WHOLE = re.compile(r"(?:\A|[\n.!?…。])[ \t]*\Z")
"""Matches the end of what may stand before a lone tag: its line has nothing else, or a sentence has ended."""
_MOST_QUOTES = 20
"""After so many lone tags that are quoted, an answer is about such tags."""


class TextReader:
    """Passes an answer's text on as deltas, and the reasoning in it as reasoning."""

    def __init__(self, deltas: Deltas) -> None:
        self._deltas = deltas
        self._held = ""
        """What can't be told yet: blanks before the first word, and what may be the beginning of a tag."""
        self._closing = ""
        """The tag that ends the reasoning that is being read."""
        self._has_words = False
        """Whether the answer, or the piece of reasoning, has begun."""
        self._quotes = 0
        """How many lone tags were quoted; as many as there may be where none can come."""

    def add(self, text: str) -> None:
        self._held += text
        self._read(last=False)

    def end(self) -> None:
        self._read(last=True)

    def _read(self, *, last: bool) -> None:
        """Pass on what is certain."""
        goes_on = True
        while goes_on and self._held:
            if self._closing:
                goes_on = self._read_thought(last=last)
            elif self._has_words:
                goes_on = self._read_answer(last=last)
            else:
                goes_on = self._read_beginning(last=last)

    def _read_beginning(self, *, last: bool) -> bool:
        words = self._held.lstrip()
        for opening, closing in _TAGS.items():
            if words.startswith(opening):
                self._expect(words.removeprefix(opening), closing)
                return True
        if words.startswith(_LONE):  # there was no reasoning
            self._expect(words.removeprefix(_LONE))
            return True
        if not last and (not words or any(tag.startswith(words) for tag in (*_TAGS, _LONE))):
            return False
        if self._quotes:  # it follows reasoning
            self._held = words
        self._has_words = True
        return True

    def _read_thought(self, *, last: bool) -> bool:
        thought, tag, rest = self._held.partition(self._closing)
        kept = 0 if tag or last else _begun(thought, self._closing)
        self._add_thought(thought[: len(thought) - kept])
        self._held = thought[len(thought) - kept :]
        if tag:
            self._expect(rest)
        return bool(tag)

    def _read_answer(self, *, last: bool) -> bool:
        if self._quotes >= _MOST_QUOTES:
            self._deltas.add_text("text", self._held)
            self._held = ""
            return False
        text, tag, rest = self._held.partition(_LONE)
        kept = 0 if tag or last else _begun(text, _LONE)
        self._deltas.add_text("text", text[: len(text) - kept])
        self._held = tag + rest if tag else text[len(text) - kept :]
        if not tag or (not rest.strip(" \t") and not last):
            return False
        if _ends_thought(self._deltas.content, rest):
            self._add_thought(self._deltas.take_back())
            self._expect(rest)
        else:
            self._quotes += 1
            self._deltas.add_text("text", tag)
            self._held = rest
        return True

    def _add_thought(self, text: str) -> None:
        text = text if self._has_words else text.lstrip()
        self._has_words = self._has_words or bool(text)
        self._deltas.add_text("reasoning", text)

    def _expect(self, rest: str, closing: str = "") -> None:
        """Go on with reasoning up to the tag `closing`, or with the answer."""
        self._held, self._closing, self._has_words, self._quotes = rest, closing, False, _MOST_QUOTES


def _begun(text: str, tag: str) -> int:
    """How many characters at the end of a text may be the beginning of a tag."""
    at = text.rfind(tag[0])  # which a tag has but once
    return len(text) - at if at >= 0 and tag.startswith(text[at:]) else 0


def _ends_thought(before: str, after: str) -> bool:
    """Whether a lone tag is what it looks like, and not quoted."""
    if "<think" in before or before.endswith(("`", "'", '"')):
        return False
    return not after.strip(" \t") or after.lstrip(" \t")[0] in "\r\n" or _WHOLE.search(before[-200:]) is not None
