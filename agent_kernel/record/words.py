"""The words of the record. The cards use the same ones."""

from collections.abc import Mapping
from typing import Literal, assert_never

from agent_kernel.protocol.figures import money
from agent_kernel.protocol.views import BudgetRaise, PauseView, RuleView, RunView, ToolCallView
from agent_kernel.protocol.vocabulary import CallState, ErrorCode, PolicyMode, RunStatus, Scope
from agent_kernel.tools.review.hidden import reveal

STATES: dict[CallState, str] = {
    "proposed": "Preparing",
    "invalid": "Not valid",
    "awaiting_approval": "Waiting for you",
    "approved": "Approved, next in line",
    "executing": "Running",
    "success": "Done",
    "error": "Failed",
    "denied": "Denied",
    "cancelled": "Cancelled",
    "superseded": "Replaced",
    "expired": "Expired",
    "unknown": "Outcome unknown",
}
COUNTED: tuple[CallState, ...] = (
    "success",
    "denied",
    "error",
    "cancelled",
    "invalid",
    "superseded",
    "expired",
    "unknown",
)
RECORDED = "Recorded demo: no model is called. It cost nothing."
NOTHING_RAN = "Nothing ran."
STOPPED = "Stopped, because "
"""How the notice begins that says why a run was stopped: see `stop_for`."""
NEVER_BEGUN = "It was stopped before it began: no model was asked, and nothing ran."
MAY_HAVE_RUN = "It may have finished, run in part, or not run at all."
MODEL_TOLD = "The model was told."
NOT_KEPT = "(HTML that a record does not keep)"
PROMPT = "Prompt"
WIDGET = "A widget: only this text of it is kept."
LEFT_OUT = "Left out: this record is too long."


def run_word(status: RunStatus) -> str:
    match status:
        case "complete":
            return "complete"
        case "cancelled":
            return "stopped"
        case "error":
            return "failed"
        case "queued" | "running":
            return "not finished"
        case _:
            assert_never(status)


def model_words(run: RunView) -> str:
    """`gpt-6-sol`, `gpt-6-sol · effort high`"""
    return f"{run.model} · effort {run.effort}" if run.effort and not run.recorded else run.model


def continued_words(run: RunView) -> str:
    """`continues from [2]`, or nothing."""
    return "" if run.continues is None else f"continues from [{run.continues}]"


def policy_words(run: RunView) -> str:
    """`asks before acting, 2 always-allow rules, limited by .agent-kernel.toml: 1 rule`"""
    allowing = sum(rule.text.startswith("allow") for rule in run.policy.rules)
    others = len(run.policy.rules) - allowing
    parts = [_mode(run.policy.mode)]
    if allowing:
        parts.append(f"{allowing} always-allow {'rule' if allowing == 1 else 'rules'}")
    if others:
        parts.append("1 rule that denies or asks" if others == 1 else f"{others} rules that deny or ask")
    if run.policy.limited_by is not None:
        parts.append(f"limited by {reveal(run.policy.limited_by)}")
    return ", ".join(parts)


_WHERE: dict[Scope, str] = {
    "once": "this call",
    "conversation": "this conversation",
    "project": "this project",
    "user": "all notebooks",
}


def rule_words(rule: RuleView) -> str:
    """Who made a rule: `all notebooks, saved by ana on 2026-11-22`, `this notebook's code`."""
    match rule.origin:
        case "saved":
            where = _WHERE[rule.scope] if rule.scope is not None else "saved"
            by = f", saved by {rule.made_by}" if rule.made_by else ", saved"
            return f"{where}{by}{f' on {rule.made_at[:10]}' if rule.made_at else ''}"
        case "code":
            return "this notebook's code"
        case "site":
            return "this site"
        case "folder":
            return rule.made_by or "a file in the notebook's folder"
        case _:
            assert_never(rule.origin)


def _mode(mode: PolicyMode) -> str:
    match mode:
        case "ask":
            return "asks before acting"
        case "edit":
            return "edits files here, asks for the rest"
        case "plan":
            return "plan only: reads, never acts"
        case "allow":
            return "acts without asking"
        case "deny":
            return "denies every action"
        case _:
            assert_never(mode)


def error_words(code: ErrorCode) -> str:
    """What an error is called, before its own message."""
    match code:
        case "BUDGET_EXCEEDED":  # its message says whether it was reached, or could not be checked
            return ""
        case "LLM_ERROR":
            return "The model did not answer."
        case "KERNEL_DIED":
            return "The kernel was lost."
        case "INTERNAL_ERROR":
            return "Something broke in Agent Kernel, not in your code."
        case "INVALID_FORMAT" | "ACCESS_DENIED" | "TOOL_ERROR" | "CONFLICT":
            return "The run failed."
        case _:
            assert_never(code)


def paused(pause: PauseView) -> str:
    """What a run waits for as a whole."""
    if pause.repeated:
        return f"the agent repeats itself: {pause.repeated}"
    whose = "the conversation's budget" if pause.of == "conversation" else "the budget"
    return f"{whose} can't be checked" if pause.unpriced else f"{whose} is reached"


def raised(step: BudgetRaise) -> str:
    """`Budget raised by ana: 100,000 tokens, 10 min.`"""
    by = step.decided_by or "you"
    if step.repeated:
        return f"The agent repeated itself: {step.repeated}. Told to go on by {by}."
    if step.without_usd:
        return f"Limit in US dollars taken away by {by}."
    added = {"tokens": "tokens", "tool_calls": "tool calls", "steps": "steps"}
    parts = [f"{value:,} {unit}" for name, unit in added.items() if (value := getattr(step.add, name)) is not None]
    if step.add.usd is not None:
        parts.append(money(step.add.usd))
    if step.add.seconds is not None:
        parts.append(duration(step.add.seconds * 1000).removesuffix(" 0 s"))
    whose = "Budget" if step.of == "run" else "Budget of the conversation"
    return f"{whose} raised by {by}: {', '.join(parts)}."


def seen_pictures(seen: int, shown: int) -> str:
    """`The model has seen this plot.`"""
    if seen < shown:
        return f"The model has seen {seen} of these {shown} plots."
    return "The model has seen this plot." if seen == 1 else f"The model has seen these {seen} plots."


Place = Literal["here", "above", "below", "left out"]
"""Where a display stands: in the transcript, beside the answer, or as an output of the notebook below the record; or it
would stand there, were there room."""


def elsewhere(place: Place, name: str) -> str:
    match place:
        case "here":
            return ""
        case "above":
            return f"Shown above: {name}."
        case "below":
            return f"Shown below: {name}."
        case "left out":
            return f"Not shown below: {name}. The outputs of this run are too many or too large."
        case _:
            assert_never(place)


_DISPLAYS = {
    "application/vnd.plotly.v1+json": "Plotly chart",
    "image/png": "picture",
    "image/jpeg": "picture",
    "image/svg+xml": "picture",
    "text/latex": "formula",
    "text/markdown": "text",
    "application/json": "JSON",
    "application/javascript": "script",
    "application/geo+json": "map",
}


def display_name(data: Mapping[str, object]) -> str:
    """What a display is, in words that are the same for each run: its own plain text may have addresses in it."""
    for kind, name in _DISPLAYS.items():
        if kind in data:
            return name
    if any(kind.startswith(("application/vnd.vega", "application/vnd.altair")) for kind in data):
        return "Vega chart"
    if "text/html" in data:
        return "table" if "<table" in str(data["text/html"])[:20_000] else "HTML"
    return next((kind for kind in data if kind != "text/plain"), "text")[:100]


def decided(call: ToolCallView) -> str:
    """Who decided, as it follows the state's word: `approved by ana`, `allowed by policy`, `by a script`."""
    if call.by is None:
        return ""
    who = {"policy": "policy", "script": "a script", "user": call.decided_by or "you"}[call.by]
    if call.state in ("denied", "superseded", "expired", "invalid"):
        return f"by {who}" if call.state == "denied" else ""
    verb = "allowed" if call.by == "policy" else "approved"
    return f"{'edited and ' if call.edited else ''}{verb} by {who}"


def duration(milliseconds: float) -> str:
    """`< 0.1 s`, `0.3 s`, `41 s`, `1 min 42 s`, `2 h 5 min`."""
    seconds = milliseconds / 1000
    if seconds < 0.05:
        return "< 0.1 s"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
