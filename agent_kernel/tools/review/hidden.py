"""Finds invisible, bidirectional and control characters, which make code look like something else."""

import re

_CONTROLS = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
_BIDIRECTIONAL = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_INVISIBLE = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2028\u2029\u2060-\u2065\u206a-\u206f\u2800\u3164"
    "\ufeff\uffa0"
)
_TAGS = "\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
_JOINERS = "\u200c\u200d\ufe00-\ufe0f"
_MOST_NAMED = 100
_LONE_RETURN = "\r(?!\n)"

_IN_CODE = f"[{_CONTROLS}{_BIDIRECTIONAL}{_INVISIBLE}{_TAGS}{_JOINERS}]|{_LONE_RETURN}"
# Joiners and variation selectors are ordinary in some scripts and in emoji.
_IN_PROSE = f"[{_CONTROLS}{_BIDIRECTIONAL}{_INVISIBLE}{_TAGS}]|{_LONE_RETURN}"


def reveal(text: str) -> str:
    """Code with each hidden character written out, as `U+202E`."""
    return re.sub(_IN_CODE, _written_out, text)


def reveal_in_prose(text: str) -> str:
    """As `reveal`, for prose, in which joiners are kept."""
    return re.sub(_IN_PROSE, _written_out, text)


def hidden_characters(text: str) -> list[str]:
    """The names of the hidden characters in code, each once, in order of appearance, at most 100."""
    # By the set of characters, because a text may have millions of hidden ones.
    in_code = re.compile(_IN_CODE)
    hidden = sorted(character for character in set(text) if character != "\r" and in_code.match(character))
    first = {text.index(character): character for character in hidden[:_MOST_NAMED]}
    if (alone := re.search(_LONE_RETURN, text)) is not None:
        first[alone.start()] = "\r"
    return [_name(first[position]) for position in sorted(first)]


def is_visible(name: str) -> bool:
    """Whether a name has no hidden character. In a name, unlike in code, tabs and ends of lines are hidden, too."""
    return not hidden_characters(name) and not any(character < " " for character in name)


def _written_out(match: re.Match[str]) -> str:
    return _name(match.group())


def _name(character: str) -> str:
    return f"U+{ord(character):04X}"
