"""A demo's recording, written as a script: what the model says and calls, turn by turn.

A `story` is a prompt, the turns that follow it while its calls end as written, and the decisions on them. A call that
ends otherwise while the notebook is recorded has no turn, so the recording fails.
"""

import inspect
from collections.abc import Sequence
from typing import Any

from agent_kernel.models.cassette import (
    After,
    Cassette,
    RecordedCall,
    RecordedConversation,
    RecordedDecision,
    RecordedTurn,
)

NOTICE = "Recorded answers: no model is called"

APPROVED = RecordedDecision(approved=True)


def denied(reason: str) -> RecordedDecision:
    return RecordedDecision(approved=False, reason=reason)


def call(tool: str, /, **arguments: Any) -> RecordedCall:
    return RecordedCall(name=tool, arguments=arguments)


def python(code: str) -> RecordedCall:
    return call("run_python", code=inspect.cleandoc(code))


def turn(content: str, *calls: RecordedCall, after: After = "success") -> RecordedTurn:
    """What the model says, and what it calls. `after`: how the calls of the turn before ended."""
    return RecordedTurn(step=0, after=after, content=inspect.cleandoc(content), tool_calls=calls)


def story(prompt: str, *turns: RecordedTurn, decisions: Sequence[RecordedDecision] = ()) -> RecordedConversation:
    """A prompt, the turns in order, and the decisions on its calls where nobody can be asked."""
    recorded = [
        one.model_copy(update={"step": step, "after": one.after if step else "start"}) for step, one in enumerate(turns)
    ]
    return RecordedConversation(prompt=inspect.cleandoc(prompt), turns=tuple(recorded), decisions=tuple(decisions))


def recording(title: str, *stories: RecordedConversation) -> Cassette:
    return Cassette(title=title, conversations=stories)
