"""Turns that are no answer: filtered, refused, cut off before a word, empty, or a call that was written as text."""

from collections.abc import Collection

from agent_kernel.errors import ModelError
from agent_kernel.models.base import LocalServer, ModelTurn
from agent_kernel.models.text_calls import TextCall, text_call

_QUOTED = 500
"""The most characters of a service's or a model's words that a message quotes."""
_AGAIN = "Try again, or choose another model."
_OTHERWISE = "Say it in other words, or choose another model."

_READS_CALLS: dict[LocalServer, str] = {
    "vLLM": "Start vLLM with --enable-auto-tool-choice and the --tool-call-parser for this model.",
    "llama.cpp": "Start llama-server with --jinja, and if need be a --chat-template-file that has tools.",
    "Ollama": "Ollama needs a template with tools for this model: `ollama show` lists what it can do.",
    "LM Studio": "LM Studio reads the calls of models that it marks for tool use.",
}


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
    if server is None:
        return (
            "Its server does not read this model's calls: vLLM needs --enable-auto-tool-choice and "
            "--tool-call-parser, llama.cpp --jinja, Ollama a template with tools."
        )
    return _READS_CALLS[server]


def _for(reason: str) -> str:
    quoted = _quoted(reason)
    return f" ({quoted})" if quoted else ""


def _quoted(text: str) -> str:
    said = " ".join(text.split())
    return said if len(said) <= _QUOTED else f"{said[: _QUOTED - 1]}…"
