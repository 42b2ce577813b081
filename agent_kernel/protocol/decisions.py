"""Decisions that are written down before the calls that they are on: by a notebook's code, or in a recording."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

MOST_DECISIONS = 1_000
"""In one script. Each answers one call, and runs are limited to far fewer calls."""
MOST_TEXT = 100_000
"""Characters of a reason or an answer."""


@dataclass(frozen=True, slots=True)
class ScriptedDecision:
    """A decision on the next undecided call that it covers, used once.

    It approves, denies (`approved=False`, with a `reason` for the model), approves with other arguments
    (`edited_input`), or answers the question of a tool such as `ask_user` (`answer`). It covers calls of `tool_name`,
    and of those only the ones with exactly these `arguments`, or with arguments of this `digest`; `None` covers any.
    Raises `ValueError` for a denial that edits or answers, and for an edit with an answer.
    """

    approved: bool
    tool_name: Annotated[str | None, Field(max_length=200)] = None
    """The tool to match; `None` matches any."""
    reason: Annotated[str | None, Field(max_length=MOST_TEXT)] = None
    arguments: dict[str, Any] | None = None
    """The whole arguments of the call, defaults that the model left out not added. Where there is a `digest`, they are
    only shown."""
    digest: Annotated[str | None, Field(max_length=64)] = None
    """The SHA-256 of the canonical arguments, as the model sent them."""
    edited_input: dict[str, Any] | None = None
    """The arguments that run in place of the model's. They are checked as a person's edit is."""
    answer: Annotated[str | None, Field(max_length=MOST_TEXT)] = None
    """The answer to a question."""
    recorded: bool = False
    """Whether it is from a recording: the card, the record and the audit trail name that."""

    def __post_init__(self) -> None:
        if not self.approved and (self.edited_input is not None or self.answer is not None):
            raise ValueError("A denial neither edits nor answers.")
        if self.edited_input is not None and self.answer is not None:
            raise ValueError("A decision edits a call or answers it, not both.")
