"""Turns that were written for an outcome, so that a recording can go on from each decision of the reader's.

They are found by prompt, step and what became of the calls of the step before; nothing else is compared.
"""

from collections.abc import Sequence

from agent_kernel.models.recordings.asked import Question
from agent_kernel.models.recordings.format import After, Placed
from agent_kernel.tools.outcome_texts import DENIED_PREFIX, EDITED_NOTE, NOT_DONE_PREFIXES

_PROMPT_CHARACTERS = 200
_WEIGHT: tuple[After, ...] = ("denied", "error", "edited")
_REAL_MODEL = (
    "To ask anything else, use a real model: set OPENAI_API_KEY (or OPENAI_BASE_URL and AGENT_KERNEL_MODEL for Ollama, "
    "vLLM or LM Studio), restart, and leave out --model or name one with it."
)


def turn_after(turns: Sequence[Placed], question: Question) -> Placed | None:
    """The turn for what became of the last calls. Where there is none for an edit, the one for a success."""
    after = outcome(question)
    wanted = (after, "success") if after == "edited" else (after,)
    here = [one for one in turns if (one.turn.prompt, one.turn.step) == (question.prompt, question.step)]
    return next((one for name in wanted for one in here if one.turn.after == name), None)


def outcome(question: Question) -> After:
    """What became of the last step's calls; of several, the first of denied, error, edited, success."""
    if question.step == 0:
        return "start"
    found = {_outcome(result.text) for result in question.asked.results}
    return next((name for name in _WEIGHT if name in found), "success")


def only_branches(turns: Sequence[Placed]) -> bool:
    return bool(turns) and all(one.turn.after is not None for one in turns)


def unanswered(name: str, turns: Sequence[Placed], question: Question) -> str:
    """The message for a question that no turn answers."""
    prompts = dict.fromkeys(one.turn.prompt for one in turns)
    if question.prompt in prompts:
        return (
            f"{name} has no recorded answer to {question.prompt!r} at step {question.step} after {outcome(question)}. "
            f"{_REAL_MODEL}"
        )
    known = "\n".join(f"- {prompt}" for prompt in prompts)
    asked = question.prompt
    asked = asked if len(asked) <= _PROMPT_CHARACTERS else f"{asked[: _PROMPT_CHARACTERS - 1]}…"
    return f"{name} is a recording and can't answer {asked!r}. It answers:\n{known}\n{_REAL_MODEL}"


def _outcome(text: str) -> After:
    if text.startswith(DENIED_PREFIX):
        return "denied"
    # The note about an edit precedes the result, so the error of an edited call begins on a later line.
    edited = EDITED_NOTE in text
    if text.startswith(NOT_DONE_PREFIXES) or (edited and any(f"\n{prefix}" in text for prefix in NOT_DONE_PREFIXES)):
        return "error"
    return "edited" if edited else "success"
