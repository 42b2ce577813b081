"""A demo's recording, written as a script: what the model says and calls, turn by turn.

A `story` is a prompt, the turns that follow it while its calls end as written, and the decisions on them. A call that
ends otherwise while the notebook is recorded has no turn, so the recording fails.
"""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_kernel.models.recordings.asked import Reader
from agent_kernel.models.recordings.format import After, Answer, DecisionLine, Header, Placed, RecordedCall, Recording
from agent_kernel.models.recordings.format import Turn as RecordedTurn

NOTICE = "Recorded answers: no model is called"


@dataclass(frozen=True)
class Turn:
    content: str
    calls: tuple[RecordedCall, ...]
    after: After


@dataclass(frozen=True)
class Decision:
    approved: bool
    reason: str | None = None


@dataclass(frozen=True)
class Story:
    prompt: str
    """As a recording has it."""
    turns: tuple[Turn, ...]
    decisions: tuple[Decision, ...]


@dataclass(frozen=True)
class Script:
    title: str
    stories: tuple[Story, ...]


APPROVED = Decision(approved=True)


def denied(reason: str) -> Decision:
    return Decision(approved=False, reason=reason)


def call(tool: str, /, **arguments: Any) -> RecordedCall:
    return RecordedCall(name=tool, arguments=arguments)


def python(code: str) -> RecordedCall:
    return call("run_python", code=inspect.cleandoc(code))


def turn(content: str, *calls: RecordedCall, after: After = "success") -> Turn:
    """What the model says, and what it calls. `after`: how the calls of the turn before ended."""
    return Turn(inspect.cleandoc(content), calls, after)


def story(prompt: str, *turns: Turn, decisions: Sequence[Decision] = ()) -> Story:
    """A prompt, the turns in order, and the decisions on its calls where nobody can be asked."""
    return Story(Reader().prompt(inspect.cleandoc(prompt)), turns, tuple(decisions))


def script(title: str, *stories: Story) -> Script:
    return Script(title, stories)


def as_recording(script: Script) -> Recording:
    """The script as a recording that goes by the outcomes of calls alone."""
    turns = [
        RecordedTurn(
            prompt=story.prompt,
            step=step,
            after=turn.after if step else "start",
            answer=Answer(content=turn.content, calls=turn.calls),
        )
        for story in script.stories
        for step, turn in enumerate(story.turns)
    ]
    decisions = [
        DecisionLine(prompt=story.prompt, approved=one.approved, reason=one.reason)
        for story in script.stories
        for one in story.decisions
    ]
    return Recording(
        path=Path(script.title),
        header=Header(title=script.title, images=True),
        settings={},
        turns=tuple(Placed(turn, number, number) for number, turn in enumerate(turns, start=1)),
        decisions=tuple(decisions),
        rows=(),
    )
