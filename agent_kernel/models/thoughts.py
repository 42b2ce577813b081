"""Tells reasoning that comes within an answer's text, between tags at its beginning, from the answer itself.

Servers that are not told how their model reasons pass its tags on.
"""

from agent_kernel.models.answer_reading import Deltas

_TAGS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",  # Gemini
    "<seed:think>": "</seed:think>",
    "[THINK]": "[/THINK]",  # Mistral
}


class TextReader:
    """Passes an answer's text on as deltas, and the reasoning in it as reasoning. Blanks before either are left out
    where there are tags."""

    def __init__(self, deltas: Deltas) -> None:
        self._deltas = deltas
        self._held = ""
        """What can't be told yet: blanks before the first word, and what may be the beginning of a tag."""
        self._closing = ""
        """The tag that ends the reasoning that is being read."""
        self._tagged = False
        """Whether there was such a tag."""
        self._thinks = False
        """Whether the reasoning has words."""
        self._begun = False
        """Whether the answer has begun: what looks like a tag is part of it from then on."""

    def add(self, text: str) -> None:
        self._held += text
        self._read(last=False)

    def end(self) -> None:
        self._read(last=True)

    def _read(self, *, last: bool) -> None:
        """Pass on what is certain."""
        while not self._begun and (self._read_thought(last=last) if self._closing else self._read_beginning(last=last)):
            pass
        if self._begun:
            self._deltas.add_text("text", self._held)
            self._held = ""

    def _read_beginning(self, *, last: bool) -> bool:
        """Look for a tag. Returns whether there is one."""
        words = self._held.lstrip()
        for opening, closing in _TAGS.items():
            if words.startswith(opening):
                self._held, self._closing, self._tagged = words.removeprefix(opening), closing, True
                return True
        if last or (words and not any(tag.startswith(words) for tag in _TAGS)):
            self._held = words if self._tagged else self._held
            self._begun = True
        return False

    def _read_thought(self, *, last: bool) -> bool:
        """Pass reasoning on. Returns whether it has ended."""
        thought, tag, rest = self._held.partition(self._closing)
        kept = 0 if tag or last else _begun(thought, self._closing)
        shown = thought[: len(thought) - kept] if self._thinks else thought[: len(thought) - kept].lstrip()
        self._thinks = self._thinks or bool(shown)
        self._deltas.add_text("reasoning", shown)
        self._held = rest if tag else thought[len(thought) - kept :]
        if tag:
            self._closing = ""
        return bool(tag)


def _begun(text: str, tag: str) -> int:
    """How many characters at the end of a text may be the beginning of a tag."""
    at = text.rfind(tag[0])  # which a tag has but once
    return len(text) - at if at >= 0 and tag.startswith(text[at:]) else 0
