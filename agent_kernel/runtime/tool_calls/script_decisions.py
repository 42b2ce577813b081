"""Decides calls by a run's script, in place of a person.

A script is the notebook's own code, or a recording that it names, so it approves no more than a rule of that code
could: what policy denies stays denied, and where the site or a file in the notebook's folder wants to be asked, only a
person may approve. A script may always deny. A call that the code's script does not cover is denied, also where a
person is there; one that a recording does not cover is left to that person.
"""

from collections.abc import Iterable
from dataclasses import replace

from agent_kernel.approvals.policy import Judgement, exceeds
from agent_kernel.approvals.rules import JudgedCall, leaves_walls, weigh
from agent_kernel.approvals.scripted import ScriptedDecision
from agent_kernel.errors import InvalidArguments
from agent_kernel.log import tool_calls
from agent_kernel.models.base import Model, RecordsDecisions
from agent_kernel.protocol.calls import Place
from agent_kernel.protocol.views import ToolCallView
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.runtime.state.active_run import ActiveRun
from agent_kernel.runtime.tool_calls.execution import is_for_page
from agent_kernel.runtime.tool_calls.previews import checked_edit
from agent_kernel.tools.arguments import digest, parse
from agent_kernel.tools.walls.inside import is_inside

RECORDING = "a recording"
_ONLY_A_PERSON = "so a script can't approve this call: only a person can"
_MAY_HAVE_RUN = f"A call with these arguments may have run already, {_ONLY_A_PERSON}."
_OUTSIDE = f"It is to run outside the walls, which the script does not say, {_ONLY_A_PERSON}."
_STRICTER = f"The policy was made stricter during the run, {_ONLY_A_PERSON}."


async def scripted_verdict(run: ActiveRun, call: ToolCallView, judgement: Judgement) -> tool_calls.Verdict | None:
    """The verdict of the run's script on a call that asks, or that is a question. `None` where a person is to be asked:
    somebody is there, and the script approves, which it may not here, or it is a recording that does not cover the
    call."""
    question = is_for_page(run, call.tool_name)
    decision = run.script.take(call, question=question)
    if decision is None:
        return _uncovered(run, call, judgement, question=question)
    why = _barred(run, call.tool_name, call.tool_input, judgement.place, judgement.walls)
    if why is None and decision.arguments is None and decision.digest is None and decision.edited_input is None:
        why = _OUTSIDE if leaves_walls(call.tool_name, parse(call.tool_input)) else None
    if decision.approved and why is not None:
        return None if run.attended else tool_calls.Verdict(False, "policy", why, place=judgement.place)
    verdict = tool_calls.Verdict(decision.approved, "script", decision.reason, place=judgement.place)
    if decision.recorded:
        verdict = replace(verdict, decided_by=RECORDING, source="recording")
    if decision.edited_input is not None:
        verdict = await _with_edit(run, call, decision, verdict)
    if decision.answer is not None:
        run.script.keep_answer(call.tool_call_id, decision.answer)
    if verdict.by == "script":
        note_decision(run, call, replace(decision, recorded=False))
    return verdict


def _uncovered(
    run: ActiveRun, call: ToolCallView, judgement: Judgement, *, question: bool
) -> tool_calls.Verdict | None:
    why = run.script.uncovered(call)
    if not run.attended or not run.script.recorded:
        return tool_calls.Verdict(False, "policy", why, place=judgement.place)
    if run.model.recorded:  # else it is being recorded again, and new calls are to be expected
        run.notify(f"You are asked. {why}")
    if question and judgement.approval == "allow":
        return tool_calls.Verdict(True, "policy", place=judgement.place)
    return None


async def _with_edit(
    run: ActiveRun, call: ToolCallView, decision: ScriptedDecision, verdict: tool_calls.Verdict
) -> tool_calls.Verdict:
    """The verdict with the script's edit, or a denial where it is not valid, or not allowed."""
    assert decision.edited_input is not None
    try:
        edit = await checked_edit(run, call, decision.edited_input)
    except InvalidArguments as error:
        return tool_calls.Verdict(False, "policy", f"The script's edit of this call was refused. {error}")
    if edit is None:
        return verdict
    why = _barred(run, call.tool_name, edit.tool_input, edit.place, edit.preview.base if edit.preview else "")
    if why is not None:
        return tool_calls.Verdict(False, "policy", why)
    return replace(verdict, edit=edit, place=edit.place)


def _barred(run: ActiveRun, tool_name: str, tool_input: str, place: Place | None, walls: str) -> str | None:
    """Why no script may approve a call; `None` where one may."""
    policy = run.view.policy
    for whose, cap in (("This site", policy.cap), (policy.limited_by or "The notebook's folder", policy.folder_cap)):
        if cap not in (None, "allow"):
            return f"{whose} allows {cap} at most, {_ONLY_A_PERSON}."
    if exceeds(run.spec.policy or "ask", policy.mode):
        return _STRICTER
    what = digest(tool_input)
    if what in run.calls.unknown:
        return _MAY_HAVE_RUN
    parameters = run.registry.declaration(tool_name).parameters
    for rule in policy.rules:
        if rule.origin in ("site", "folder"):
            judged = JudgedCall(
                tool_name, parse(tool_input), what, parameters=parameters, place=place, inside=is_inside(walls)
            )
            said = weigh([rule.text], judged)
            if said.asks or said.denied_by is not None:
                return f"The rule `{rule.text}` of the {rule.origin} asks, {_ONLY_A_PERSON}."
    return None


def note_decision(run: ActiveRun, call: ToolCallView, decision: ScriptedDecision) -> None:
    """Keep a decision for the recording that the run's model makes, if it makes one, bound to the call as the model
    asked for it."""
    if isinstance(run.model, RecordsDecisions):
        bound = replace(decision, tool_name=call.tool_name, digest=call.digest, arguments=parse(call.tool_input))
        run.note_decision(call.tool_call_id, bound)


def with_recorded(spec: RunSpec, model: Model) -> RunSpec:
    """The specification of a run where a person is there, with the decisions of the recording that its model plays.
    Only those count that are bound to a call's digest."""
    find = getattr(model, "scripted_decisions", None)
    if spec.script or find is None:
        return spec
    recorded: tuple[ScriptedDecision, ...] = find(spec.prompt)
    return replace(spec, script=tuple(one for one in recorded if one.recorded and one.digest is not None))


def use_up(run: ActiveRun, calls: Iterable[ToolCallView]) -> None:
    """Take the decisions out of the script of a run that is back in memory which its calls in the log have used."""
    for call in calls:
        if call.by == "script":
            run.script.note_used(
                call,
                approved=call.state != "denied",
                edited=call.edited,
                question=is_for_page(run, call.tool_name),
            )
