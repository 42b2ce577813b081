"""Recognises calls that a model wrote as text, in the markup of its own that its server should have read.

An answer may quote such markup: in code, or as an example with words after it. So text counts as a call only outside of
code, where the answer begins or ends with it, or where it has a line of its own and names a tool that was offered.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice


@dataclass(frozen=True, slots=True)
class TextCall:
    start: int
    """Where the markup begins in the text."""
    tool: str
    """The offered tool that it names; empty if it names none of them."""


@dataclass(frozen=True, slots=True)
class _Markup:
    sign: str
    """A part of it that hardly any text has; empty for a call that is known by its shape alone, as a whole text."""
    begin: re.Pattern[str]
    """Enough of a call to be mistaken for nothing else. A group `name` must be a tool that was offered."""
    end: tuple[str, ...]
    """What the last call ends with, if it has an end."""


def _markup(sign: str, begin: str, *end: str) -> _Markup:
    return _Markup(sign, re.compile(begin, re.DOTALL), end)


_BAR = "\uff5c"
"""The wide bar in DeepSeek's tokens."""
_JSON = ("}", "]")
_MARKUPS = (
    # Hermes and Qwen `<tool_call>{json}`, Qwen Coder `<tool_call><function=…>`, GLM `<tool_call>name<arg_key>`
    _markup(
        "<tool_call>",
        r"<tool_call>\s*(?:[\[{]|<function=|[\w.:-]+\s*(?:<arg_key>|</tool_call>))",
        "</tool_call>",
        *_JSON,
    ),
    _markup(
        "<function=", r"<function=[\w.:-]+>\s*(?:<parameter=|\{|</function>)", "</function>", "</tool_call>", *_JSON
    ),
    _markup(
        "<|tool_call", r"<\|tool_call\|?>\s*(?:[\[{]|call:)", "<|/tool_call|>", "<tool_call|>", *_JSON
    ),  # Phi, Granite, Gemma
    _markup("function_calls>", r"<(?:antml:)?function_calls>\s*<(?:antml:)?invoke name=", "function_calls>"),
    _markup("<invoke name=", r"<(?:[\w-]{1,40}:)?tool_calls?>\s*<invoke name=", "tool_call>", "tool_calls>"),  # MiniMax
    _markup("[TOOL_CALLS]", r"\[TOOL_CALLS\]\s*(?:[\[{]|[\w.:-]+\s*(?:\[|\{))", *_JSON),  # Mistral
    _markup("<|python_", r"<\|python_(?:tag|start)\|>[\[{\w]", "<|python_end|>", *_JSON, ")"),  # Llama
    # Harmony, and what is left of it without its tokens: `…again.assistantcommentary to=functions.lookjson{…}`
    _markup(
        "to=functions.",
        r"(?:\A\s*(?:<\|start\|>)?(?:assistant)?(?:<\|channel\|>)?analysis.*?)?"
        r"(?:<\|start\|>)?(?:assistant)?(?:<\|channel\|>)?(?:analysis|commentary|final)?\s{0,9}\b"
        r"to=functions\.[\w.-]+[^{}]{0,80}\{",
        "}",
    ),
    _markup("tool▁call", f"<{_BAR}tool▁calls?▁begin{_BAR}>", f"▁end{_BAR}>", *_JSON),  # DeepSeek
    _markup("DSML", f"<{_BAR}DSML{_BAR}(?:function_calls|tool_calls|invoke)", "calls>", "invoke>"),
    _markup("_begin|>", r"<\|tool_calls?(?:_section)?_begin\|>", "_end|>", *_JSON),  # Kimi
    # Without any mark: Llama's JSON, and calls as Python writes them
    _markup(
        "",
        r'\s*(?:\[\s*)?\{\s*(?:"type"\s*:\s*"function"\s*,\s*)?(?:"function"\s*:\s*\{\s*)?"name"\s*:\s*"(?P<name>[^"]+)"'
        r'\s*,\s*"(?:arguments|parameters)"\s*:',
        *_JSON,
    ),
    _markup("", r"\s*\[?(?:print\()?(?:default_api\.|functions\.)?(?P<name>\w+)\(", ")", ")]"),
)
_CODE = re.compile(
    r"^ {0,3}(?P<fence>`{3,}|~{3,})[^\n]*\n.*?(?:^ {0,3}(?P=fence)|\Z)"
    r"|(?<!`)(?P<ticks>`{1,3})(?!`)(?:(?!\n\s*\n).){1,2000}?(?<!`)(?P=ticks)(?!`)"
    r"|^(?: {4}|\t)[^\n]*",
    re.DOTALL | re.MULTILINE,
)
_LAST_TOKENS = re.compile(rf"(?:\s|<[|{_BAR}][\w▁]{{1,40}}[|{_BAR}]>|</s>)+\Z")
"""Special tokens that some servers leave at the end of a text."""
_TAIL = 300
_NAMED_WITHIN = 2_000
"""Characters of a call in which its tool is looked for."""
_MOST_QUOTES = 200
"""After so many places with one markup that are no calls, a text is about that markup."""


def has_marks(text: str) -> bool:
    """Whether a text may have a call in it, for which it would have to be searched."""
    return any(markup.sign and markup.sign in text for markup in _MARKUPS)


def text_call(text: str, tools: Collection[str]) -> TextCall | None:
    """The first call in a text, given the names of the tools that were offered."""
    whole = _Text(text)
    found = (call for markup in _MARKUPS for call in _calls(whole, markup, tools))
    return min(found, key=lambda call: call.start, default=None)


class _Text:
    def __init__(self, text: str) -> None:
        self.text = text
        self._first = len(text) - len(text.lstrip())
        tail = text[-_TAIL:].rstrip()
        self._tails = (tail, _LAST_TOKENS.sub("", tail))

    @cached_property
    def _code(self) -> list[tuple[int, int]]:
        return [code.span() for code in _CODE.finditer(self.text)]

    def in_code(self, at: int) -> bool:
        return any(start <= at < end for start, end in self._code)

    def begins_at(self, at: int) -> bool:
        return at <= self._first

    def ends_after(self, at: int, ends: tuple[str, ...]) -> bool:
        """Whether the text ends with what goes on at this place: there is such an end last, or none at all."""
        return any(tail.endswith(ends) for tail in self._tails) or not any(self.text.find(end, at) >= 0 for end in ends)

    def begins_line_at(self, at: int) -> bool:
        return not self.text[self.text.rfind("\n", 0, at) + 1 : at].strip()


def _places(text: str, markup: _Markup) -> Iterable[re.Match[str]]:
    if not markup.sign:
        return filter(None, [markup.begin.match(text)])
    return islice(markup.begin.finditer(text), _MOST_QUOTES) if markup.sign in text else ()


def _calls(whole: _Text, markup: _Markup, tools: Collection[str]) -> Iterator[TextCall]:
    for begin in _places(whole.text, markup):
        start, name = begin.start(), begin.groupdict().get("name")
        if name is not None and name not in tools:
            continue
        tool = name or _named(whole.text[start : begin.end() + _NAMED_WITHIN], tools)
        ends = whole.ends_after(begin.end() - 1, markup.end)
        own = whole.begins_at(start) or (bool(tool) and whole.begins_line_at(start))
        if (ends or (own and name is None)) and not whole.in_code(start):
            yield TextCall(start, tool)


def _named(call: str, tools: Collection[str]) -> str:
    """The tool that a call names first. What follows the name may stick to it: `lookjson{`."""
    found = ((re.search(rf"(?<!\w){re.escape(tool)}", call), tool) for tool in tools)
    places = [(place.start(), -len(tool), tool) for place, tool in found if place is not None]
    return min(places)[2] if places else ""
