"""A demo's recording, written as a script: what the model says and calls, turn by turn.

A `story` is a prompt and the turns that follow it while its calls end as written. Where a person decides differently in
JupyterLab, or a call fails, a turn says so and stops: those alternatives are added to each step that has none.
"""

import inspect
from collections.abc import Sequence
from typing import Any

import orjson

from agent_kernel.models.cassette import (
    After,
    Cassette,
    RecordedCall,
    RecordedConversation,
    RecordedDecision,
    RecordedTurn,
)

NOTICE = "Recorded answers: no model is called"

OTHERWISE: dict[After, str] = {
    "edited": (
        "You changed the call, so the answer that was recorded for it may not fit. What ran, and its output, stands "
        "above; it is real."
    ),
    "denied": "You said no, and this is a recording that knows no other way, so I stop here. Nothing else was changed.",
    "error": (
        "That call did not end well; what it said stands above. This is a recording and knows no other way, so I stop "
        "here. Run the cell to ask again."
    ),
}

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
    recorded: list[RecordedTurn] = []
    for step, one in enumerate(turns):
        after = one.after if step else "start"
        recorded.append(one.model_copy(update={"step": step, "after": after}))
        if step:
            others = (other for other in ("success", *OTHERWISE) if other != after)
            recorded += [RecordedTurn(step=step, after=other, content=_otherwise(other)) for other in others]
    return RecordedConversation(prompt=inspect.cleandoc(prompt), turns=tuple(recorded), decisions=tuple(decisions))


def recording(title: str, *stories: RecordedConversation) -> Cassette:
    return Cassette(title=title, model="scripted", notice=NOTICE, conversations=stories)


def as_json(cassette: Cassette) -> bytes:
    """The content of the file: readable, without what has its default."""
    content = cassette.model_dump(mode="json", exclude_defaults=True)
    return orjson.dumps({"version": cassette.version, **content}, option=orjson.OPT_INDENT_2) + b"\n"


def _otherwise(after: After) -> str:
    return OTHERWISE.get(after, "That went otherwise than it was recorded, so I stop here. What ran stands above.")
