"""Turns that are no answer: filtered, refused, cut off before a word, empty."""

from agent_kernel.errors import ModelError
from agent_kernel.models.base import ModelTurn

_QUOTED = 500
"""The most characters of a service's or a model's words that a message quotes."""
_AGAIN = "Try again, or choose another model."
_OTHERWISE = "Say it in other words, or choose another model."


class NoAnswer(ModelError):
    """A whole turn that is no answer. What it cost was spent all the same."""

    def __init__(self, why: str, turn: ModelTurn) -> None:
        super().__init__(why)
        self.turn = turn


def filtered(reason: str = "") -> str:
    """`ModelTurn.failure` for an answer that the service withheld; `reason` is its own word for why."""
    return f"The service's content filter stopped the answer{_named(reason)}. {_OTHERWISE}"


def refused(words: str = "", by: str = "The model") -> str:
    """`ModelTurn.failure` for a refusal, in the words of the model or of the service."""
    said = _quoted(words)
    if not said:
        return f"{by} refused to answer. {_OTHERWISE}"
    return f"{by} refused: {said}{'' if said[-1] in '.!?…' else '.'} {_OTHERWISE}"


def malformed_call(reason: str) -> str:
    """`ModelTurn.failure` for a call that the service could not read."""
    return f"The model wrote a call that its service could not read{_named(reason)}. {_AGAIN}"


def why_no_answer(turn: ModelTurn) -> str:
    """Why a turn is no answer, as sentences with advice; empty for one that is, and for one that asks for calls."""
    if turn.failure or turn.tool_calls or turn.content.strip():
        return turn.failure
    if turn.finish_reason == "length":
        where = "while the model was still reasoning" if turn.reasoning.strip() else "before its first word"
        return (
            f"The answer reached its length limit {where}. Ask for less at once, choose a lower --effort, or give the "
            "model more room: for Ollama raise OLLAMA_CONTEXT_LENGTH (num_ctx)."
        )
    only = ": the model only reasoned" if turn.reasoning.strip() else ""
    return f"The answer is empty{only}. {_AGAIN}"


def _named(reason: str) -> str:
    quoted = _quoted(reason)
    return f" ({quoted})" if quoted else ""


def _quoted(text: str) -> str:
    said = " ".join(text.split())
    return said if len(said) <= _QUOTED else f"{said[: _QUOTED - 1]}…"
