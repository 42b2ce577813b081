"""Turns that are no answer: filtered, refused, cut off before a word, empty, or a call that was written as text: in the
markup of its own that a model's server should have read.

An answer may quote such markup in code, so it counts outside of that alone; a call without any mark counts as a whole
text alone.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice
from typing import assert_never

from agent_kernel.errors import ModelError
from agent_kernel.models.base import LocalServer, ModelTurn

_QUOTED = 500
"""The most characters of a service's or a model's words that a message quotes."""
_AGAIN = "Try again, or choose another model."
_OTHERWISE = "Say it in other words, or choose another model."


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


@dataclass(frozen=True, slots=True)
class TextCall:
    start: int
    """Where the markup begins in the text."""
    tool: str
    """The offered tool that it names; empty if it names none of them."""


class NoAnswer(ModelError):
    """A whole turn that is no answer. What it cost was spent all the same."""

    def __init__(self, why: str, turn: ModelTurn, left: str) -> None:
        """`why` is in sentences, with advice. `left` is the text of the turn that may be shown."""
        super().__init__(why)
        self.turn = turn
        self.left = left


def filtered(reason: str = "") -> str:
    """`ModelTurn.failure` for an answer that the service withheld; `reason` is its own word for why."""
    return f"The service's content filter stopped the answer{_for(reason)}. {_OTHERWISE}"


def refused(words: str = "", by: str = "The model") -> str:
    """`ModelTurn.failure` for a refusal, in the words of the model or of the service."""
    said = _quoted(words)
    if not said:
        return f"{by} refused to answer. {_OTHERWISE}"
    return f"{by} refused: {said}{'' if said[-1] in '.!?…' else '.'} {_OTHERWISE}"


def malformed_call(reason: str) -> str:
    """`ModelTurn.failure` for a call that the service could not read."""
    return f"The model wrote a call that its service could not read{_for(reason)}. {_AGAIN}"


def no_answer(turn: ModelTurn, tools: Collection[str], server: LocalServer | None) -> NoAnswer | None:
    """What to raise for a turn that is no answer; `None` for one that is, and for one that asks for calls. `tools` are
    the names of those that the model was offered, `server` is the program that runs it."""
    if turn.failure:
        return NoAnswer(turn.failure, turn, turn.content)
    if turn.tool_calls:
        return None
    content = turn.content.strip()
    if tools and (call := text_call(turn.content if content else turn.reasoning, tools)):
        return NoAnswer(_written(call, server), turn, turn.content[: call.start].rstrip() if content else "")
    if content:
        return None
    return NoAnswer(_nothing(turn), turn, "")


def _nothing(turn: ModelTurn) -> str:
    reasoned = bool(turn.reasoning.strip())
    if turn.finish_reason == "length":
        where = "while the model was still reasoning" if reasoned else "before its first word"
        return (
            f"The answer reached its length limit {where}. Ask for less at once, choose a lower --effort, or give the "
            "model more room: for Ollama raise OLLAMA_CONTEXT_LENGTH (num_ctx)."
        )
    return f"The answer is empty{': the model only reasoned' if reasoned else ''}. {_AGAIN}"


def _written(call: TextCall, server: LocalServer | None) -> str:
    what = f"a call of {call.tool}" if call.tool else "a call"
    return f"The model wrote {what} as text, so it did not run. {_lacks(server)} Or choose a model that takes tools."


def _lacks(server: LocalServer | None) -> str:
    """What a server needs in order to read the calls of its model."""
    match server:
        case "vLLM":
            return "Start vLLM with --enable-auto-tool-choice and the --tool-call-parser for this model."
        case "llama.cpp":
            return "Start llama-server with --jinja, and if need be a --chat-template-file that has tools."
        case "Ollama":
            return "Ollama needs a template with tools for this model: `ollama show` lists what it can do."
        case "LM Studio":
            return "LM Studio reads the calls of models that it marks for tool use."
        case None:
            return (
                "Its server does not read this model's calls: vLLM needs --enable-auto-tool-choice and "
                "--tool-call-parser, llama.cpp --jinja, Ollama a template with tools."
            )
        case _:
            assert_never(server)


def _for(reason: str) -> str:
    quoted = _quoted(reason)
    return f" ({quoted})" if quoted else ""


def _quoted(text: str) -> str:
    said = " ".join(text.split())
    return said if len(said) <= _QUOTED else f"{said[: _QUOTED - 1]}…"


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
