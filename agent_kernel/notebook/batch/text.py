"""Text of notebooks, as it can be printed in a terminal and written as XML."""

import re

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
MOST_CHARACTERS = 20_000
"""Of one text in a report: a traceback may hold all that was printed."""


def plain(text: str) -> str:
    """The text without colours and control characters, and of a bounded length."""
    cleaned = _NOT_IN_XML.sub("�", _ANSI.sub("", text)).strip()
    left_out = len(cleaned) - MOST_CHARACTERS
    return cleaned if left_out <= 0 else f"{cleaned[:MOST_CHARACTERS]}… ({left_out} more characters)"


def count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
