"""Between a recording's lines of decisions and the decisions that answer calls."""

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
