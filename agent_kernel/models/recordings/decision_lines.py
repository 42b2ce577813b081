"""Between a recording's lines of decisions and the decisions that answer calls."""

from collections.abc import Sequence

from agent_kernel.approvals.scripted import ScriptedDecision
from agent_kernel.models.recordings.format import DecisionLine


def of_scripted(decision: ScriptedDecision, *, prompt: str, occurrence: int) -> DecisionLine:
    return DecisionLine(
        prompt=prompt,
        occurrence=occurrence,
        tool=decision.tool_name,
        digest=decision.digest,
        arguments=decision.arguments,
        approved=decision.approved,
        reason=decision.reason,
        edited_input=decision.edited_input,
        answer=decision.answer,
    )


def as_scripted(line: DecisionLine) -> ScriptedDecision:
    return ScriptedDecision(
        approved=line.approved,
        tool_name=line.tool,
        reason=line.reason,
        arguments=line.arguments,
        digest=line.digest,
        edited_input=line.edited_input,
        answer=line.answer,
        recorded=True,
    )


class RecordedDecisions:
    """The decisions of one recording, which are given to the runs of each prompt in turn."""

    def __init__(self, lines: Sequence[DecisionLine]) -> None:
        self._lines = lines
        self._asked: dict[str, int] = {}

    def next_run(self, prompt: str) -> tuple[ScriptedDecision, ...]:
        """Those on the calls of the next run of a prompt; after the last recorded one comes the first again."""
        lines = [line for line in self._lines if line.prompt == prompt]
        numbers = sorted({line.occurrence for line in lines})
        if not numbers:
            return ()
        before = self._asked.get(prompt, 0)
        self._asked[prompt] = before + 1
        number = numbers[before % len(numbers)]
        return tuple(as_scripted(line) for line in lines if line.occurrence == number)
