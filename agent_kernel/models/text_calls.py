"""Recognises calls that a model wrote as text, in the markup of its own that its server should have read.

An answer may quote such markup: in code, or as an example with words after it. So text counts as a call only outside of
code, where the answer begins or ends with it, or where it has a line of its own and names a tool that was offered.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice


@dataclass(frozen=True, slots=True)
class TextCall:
    start: int
    """Where the markup begins in the text."""
    tool: str
    """The offered tool that it names; empty if it names none of them."""


_BAR = "\uff5c"
"""The wide bar in DeepSeek's tokens."""
_MARKUPS = {
    # Hermes and Qwen `<tool_call>{json}`, Qwen Coder `<tool_call><function=…>`, GLM `<tool_call>name<arg_key>`
    "<tool_call>": r"<tool_call>\s*(?:[\[{]|<function=|[\w.:-]+\s*(?:<arg_key>|</tool_call>))",
    "<function=": r"<function=[\w.:-]+>\s*(?:<parameter=|\{|</function>)",
    "<|tool_call": r"<\|tool_call\|?>\s*(?:[\[{]|call:)",  # Phi, Granite, Gemma
    "function_calls>": r"<(?:antml:)?function_calls>\s*<(?:antml:)?invoke name=",
    "<invoke name=": r"<(?:[\w-]{1,40}:)?tool_calls?>\s*<invoke name=",  # MiniMax
    "[TOOL_CALLS]": r"\[TOOL_CALLS\]\s*(?:[\[{]|[\w.:-]+\s*(?:\[|\{))",  # Mistral
    "<|python_": r"<\|python_(?:tag|start)\|>[\[{\w]",  # Llama
    # Harmony, and what is left of it without its tokens: `…again.assistantcommentary to=functions.lookjson{…}`
    "to=functions.": r"(?:\A\s*(?:<\|start\|>)?(?:assistant)?(?:<\|channel\|>)?analysis.*?)?"
    r"(?:<\|start\|>)?(?:assistant)?(?:<\|channel\|>)?(?:analysis|commentary|final)?\s{0,9}\b"
    r"to=functions\.[\w.-]+[^{}]{0,80}\{",
    "tool▁call": f"<{_BAR}tool▁calls?▁begin{_BAR}>",  # DeepSeek
    "DSML": f"<{_BAR}DSML{_BAR}(?:function_calls|tool_calls|invoke)",
    "_begin|>": r"<\|tool_calls?(?:_section)?_begin\|>",  # Kimi
}
"""By a part of it that hardly any text has: enough of a call to be mistaken for nothing else."""
_BEGINNINGS = {sign: re.compile(begin, re.DOTALL) for sign, begin in _MARKUPS.items()}
_BARE = re.compile(
    r'\s*(?:\[\s*)?\{\s*(?:"type"\s*:\s*"function"\s*,\s*)?(?:"function"\s*:\s*\{\s*)?"name"\s*:\s*"(?P<name>[^"]+)"'
    r'\s*,\s*"(?:arguments|parameters)"\s*:'
    r"|\s*\[?(?:print\()?(?:default_api\.|functions\.)?(?P<function>\w+)\("
)
"""Calls without any mark: Llama's JSON, and calls as Python writes them. They are the whole text."""
_END = re.compile(rf"(?:[}}\])]|[\w|▁{_BAR}]>)(?:\s|<[|{_BAR}][\w▁]{{1,40}}[|{_BAR}]>|</s>)*\Z")
"""The end of a call, and special tokens that some servers leave behind it."""
_CODE = re.compile(
    r"^ {0,3}(?P<fence>`{3,}|~{3,})[^\n]*\n.*?(?:^ {0,3}(?P=fence)|\Z)"
    r"|(?<!`)(?P<ticks>`{1,3})(?!`)(?:(?!\n\s*\n).){1,2000}?(?<!`)(?P=ticks)(?!`)"
    r"|^(?: {4}|\t)[^\n]*",
    re.DOTALL | re.MULTILINE,
)
_TAIL = 300
_NAMED_WITHIN = 2_000
"""Characters of a call in which its tool is looked for."""
_MOST_QUOTES = 200
"""After so many places with one markup that are no calls, a text is about that markup."""


def has_marks(text: str) -> bool:
    """Whether a text may have a call in it, for which it would have to be searched."""
    return any(sign in text for sign in _MARKUPS)


def text_call(text: str, tools: Collection[str]) -> TextCall | None:
    """The first call in a text, given the names of the tools that were offered."""
    end, bare = _END.search(text[-_TAIL:]), _BARE.match(text)
    if bare is not None and end is not None and (name := bare["name"] or bare["function"]) in tools:
        return TextCall(bare.start(), name)
    ends = end is not None and not end[0].startswith(")")  # as sentences do
    return min(_marked(text, tools, ends=ends), key=lambda call: call.start, default=None)


def _marked(text: str, tools: Collection[str], *, ends: bool) -> Iterator[TextCall]:
    code = [found.span() for found in _CODE.finditer(text)]
    first = len(text) - len(text.lstrip())
    for sign, beginning in _BEGINNINGS.items():
        for begin in islice(beginning.finditer(text), _MOST_QUOTES) if sign in text else ():
            start = begin.start()
            tool = _named(text[start : begin.end() + _NAMED_WITHIN], tools)
            own_line = bool(tool) and not text[text.rfind("\n", 0, start) + 1 : start].strip()
            if (ends or own_line or start <= first) and not any(at <= start < end for at, end in code):
                yield TextCall(start, tool)


def _named(call: str, tools: Collection[str]) -> str:
    """The tool that a call names first. What follows the name may stick to it: `lookjson{`."""
    found = ((re.search(rf"(?<!\w){re.escape(tool)}", call), tool) for tool in tools)
    places = [(place.start(), -len(tool), tool) for place, tool in found if place is not None]
    return min(places)[2] if places else ""
