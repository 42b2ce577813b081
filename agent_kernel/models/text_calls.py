"""Recognises calls that a model wrote as text, in the markup of its own that its server should have read.

An answer may quote such markup in code, so it counts outside of that alone; a call without any mark counts as a whole
text alone.
"""

import re
from collections.abc import Collection
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
_MARKED = {
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
"""A part of each markup that hardly any text has, and enough of a call to be mistaken for nothing else."""
_UNMARKED = re.compile(
    r'\s*(?:\[\s*)?\{\s*(?:"type"\s*:\s*"function"\s*,\s*)?(?:"function"\s*:\s*\{\s*)?"name"\s*:\s*"(?P<name>[^"]+)"'
    r'\s*,\s*"(?:arguments|parameters)"\s*:'  # Llama's JSON
    r"|\s*\[?(?:print\()?(?:default_api\.|functions\.)?(?P<function>\w+)\("  # calls as Python writes them
)
_CODE = re.compile(
    r"^ {0,3}(?P<fence>`{3,}|~{3,})[^\n]*\n.*?(?:^ {0,3}(?P=fence)|\Z)"
    r"|(?<!`)(?P<ticks>`{1,3})(?!`)(?:(?!\n\s*\n).){1,2000}?(?<!`)(?P=ticks)(?!`)"
    r"|^(?: {4}|\t)[^\n]*",
    re.DOTALL | re.MULTILINE,
)
_NAMED_WITHIN = 2_000
"""Characters of a call in which its tool is looked for."""
_MOST_QUOTES = 200
"""After so many places with one markup in code, a text is about that markup."""


def has_marks(text: str) -> bool:
    """Whether a text may have a call in it, for which it would have to be searched."""
    return any(mark in text for mark in _MARKED)


def text_call(text: str, tools: Collection[str]) -> TextCall | None:
    """The first call in a text, given the names of the tools that were offered."""
    if (whole := _UNMARKED.match(text)) and text.rstrip().endswith(("}", "]", ")")):
        name = whole["name"] or whole["function"]
        if name in tools:
            return TextCall(0, name)
    begins = [begin for mark, begin in _MARKED.items() if mark in text]
    code = [found.span() for found in _CODE.finditer(text)] if begins else []
    places = [
        found.start()
        for begin in begins
        for found in islice(re.finditer(begin, text, re.DOTALL), _MOST_QUOTES)
        if not any(start <= found.start() < end for start, end in code)
    ]
    return TextCall(min(places), _named(text[min(places) :][:_NAMED_WITHIN], tools)) if places else None


def _named(call: str, tools: Collection[str]) -> str:
    """The tool that a call names first. What follows the name may stick to it: `lookjson{`."""
    found = ((re.search(rf"(?<!\w){re.escape(tool)}", call), tool) for tool in tools)
    places = [(place.start(), -len(tool), tool) for place, tool in found if place is not None]
    return min(places)[2] if places else ""
