"""The texts of the record and of `agent-kernel chat`. `SHARED` has those of the cards as well, which `npm run types`
writes to `widgets/src/text/words.gen.ts`."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from math import ceil
from typing import Any, Final, assert_never

from agent_kernel.protocol.figures import money
from agent_kernel.protocol.views import BudgetRaise, DelayView, ErrorView, PauseView, RuleView, RunView, ToolCallView
from agent_kernel.protocol.vocabulary import (
    CUT_OFF,
    OWN_MODEL_FAILED,
    RECORDING_CHANGED,
    STATE_WORDS,
    CallState,
    DecidedBy,
    DelayKind,
    ErrorCode,
    PolicyMode,
    RunStatus,
    Scope,
)
from agent_kernel.tools.review.hidden import reveal

STATES = STATE_WORDS
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
MODES: dict[PolicyMode, str] = {
    "ask": "asks before acting",
    "edit": "edits files here, asks for the rest",
    "plan": "plan only: reads, never acts",
    "allow": "acts without asking",
    "deny": "denies every action",
}
ACTED: dict[PolicyMode, str] = {
    "ask": "asked before acting",
    "edit": "edited files here, asked for the rest",
    "plan": "planned only: read, never acted",
    "allow": "acted without asking",
    "deny": "was denied every action",
}
"""`MODES` of a run that has ended."""
TITLES = {
    "run_python": "Run Python",
    "run_shell": "Run a command",
    "inspect_variables": "Look at variables",
    "read_notebook": "Read the notebook",
    "insert_cell": "Insert a cell",
    "edit_cell": "Edit a cell",
    "delete_cell": "Delete a cell",
    "move_cell": "Move a cell",
    "run_cell": "Run a cell",
    "list_files": "List files",
    "search_files": "Search files",
    "read_file": "Read a file",
    "edit_file": "Edit a file",
    "write_file": "Write a file",
    "ask_user": "Ask you",
}
"""What a call does, by its tool's name."""
TITLES_OF = {
    "read_notebook": "Read",
    "list_files": "List files in",
    "search_files": "Search files for",
    "read_file": "Read",
    "edit_file": "Edit",
    "write_file": "Write",
}
"""The same before the summary of its arguments: `Read sales.csv`."""
TITLES_OF_CELLS = {
    "edit_cell": "Edit cell [{cell}]",
    "delete_cell": "Delete cell [{cell}]",
    "move_cell": "Move cell [{cell}]",
    "run_cell": "Run cell [{cell}]",
}
"""The same where the cell has a number."""
RULES = {
    "allows": "1 always-allow rule",
    "allow": "{count} always-allow rules",
    "stops": "1 rule that denies or asks",
    "stop": "{count} rules that deny or ask",
}
RULE_TEXTS = {
    " where digest is ": ", this exact call",
    " defined as ": ", as its server defined it",
}
"""What stands in place of a digest where a rule is shown, by what comes before it in the rule."""
_DIGEST = re.compile(f"({'|'.join(RULE_TEXTS)})[0-9a-f]{{64}}")
_SCOPES: dict[Scope, str] = {
    "once": "this call",
    "run": "this run",
    "conversation": "this conversation",
    "project": "this project",
    "user": "all notebooks",
}
SEEN = {
    "one": "The model has seen this plot.",
    "all": "The model has seen these {seen} plots.",
    "some": "The model has seen {seen} of these {shown} plots.",
}
STORED = {
    "now": "from less than a minute ago",
    "one": "from 1 minute ago",
    "more": "from {minutes} minutes ago",
}
DECIDERS: dict[DecidedBy, str] = {"user": "you", "policy": "policy", "script": "a script"}
ERRORS: dict[ErrorCode, str] = {
    "LLM_ERROR": "The model did not answer.",
    "KERNEL_DIED": "The kernel was lost.",
    "INTERNAL_ERROR": "Something broke in Agent Kernel, not in your code.",
}
PAUSED = {
    "repeats": "the agent repeats itself",
    "run": "the budget is reached",
    "conversation": "the conversation's budget is reached",
    "unpricedRun": "the budget can't be checked",
    "unpricedConversation": "the conversation's budget can't be checked",
}
PAUSED_BEFORE = "The run is paused before its next model call."
DELAYS: dict[DelayKind, str] = {
    "rate_limited": "Rate limited",
    "overloaded": "The service is overloaded",
    "loading": "The server is loading the model",
    "failed": "The model did not answer",
    "slow": "Waiting for the model\u2019s answer",
}
DELAYED = {
    "next": "next try in {left}",
    "now": "trying again, {gone}",
    "count": "try {attempt} of {tries}",
}
RAISED = {
    "run": "Budget raised by {by}",
    "conversation": "Budget of the conversation raised by {by}",
    "withoutUsd": "Limit in US dollars taken away by {by}",
    "repeats": "The agent repeated itself: {repeated}. Told to go on by {by}",
}
MODEL_WITH_EFFORT = "{model} · effort {effort}"
LEAN_MODEL = "{model} · fewer words and tools for its small context"
CONTINUED = "continued from cell [{cell}]"
MENTIONS = "read with the prompt: {names}"
FOLLOWED = "followed {names}"
RECORDED = {
    "demo": "Recorded demo",
    "answers": "Recorded answers",
    "answersOf": "Recorded answers of {file}",
    "noModel": "{what}: no model is called",
    "by": "a recording",
    "approvedOne": "A recording approved 1 call",
    "approved": "A recording approved {count} calls",
}
_SEPARATORS = re.compile(r"[/\\]")
NOTHING_RAN = "Nothing ran."
STOPPED = "Stopped, because "
"""The beginning of the notice that says why a run was stopped: see `stop_for`."""
NEVER_BEGUN = "It was stopped before it began: no model was asked, and nothing ran."
MAY_HAVE_RUN = "It may have finished, run in part, or not run at all."
MODEL_TOLD = "The model was told."
ACTIONS = {
    "approve": "Approve",
    "deny": "Deny",
    "allowInRun": "Approve, and don\u2019t ask again",
    "goOn": "Continue",
    "goOnWithout": "Continue without it",
    "runAgain": "Run again",
}
"""The names of buttons."""
CARD = {
    "exactly": "Approves exactly what is shown.",
    "reason": "Reason",
    "reasonNote": "optional; the model reads it and goes on",
    "yourAnswer": "Your answer",
    "look": "Look before you choose.",
    "outcomeNote": "Run again asks you first. Continue tells the model that the outcome is unknown.",
    "stored": "A stored outcome was given again.",
    "behindCell": "Your cell [{cell}] is running. This call starts when it ends.",
    "orStop": "Or stop the run; what is done stays.",
}
OWN_TITLES = (RECORDING_CHANGED, CUT_OFF, OWN_MODEL_FAILED)
"""How messages begin that have no other title: a model was not asked, or did answer."""
NOT_KEPT = "(HTML that a record does not keep)"
PROMPT = "Prompt"
WIDGET = "A widget: only this text of it is kept."
FOLDED = "Output, {count} lines"
LEFT_OUT = "Left out: this record is too long."


def counted(counts: Mapping[CallState, int]) -> str:
    """The calls by state: `3 steps: 2 done, 1 denied`."""
    total = sum(counts.values())
    listed = (*COUNTED, *(state for state in counts if state not in COUNTED))
    parts = ", ".join(f"{counts[state]} {STATES[state].lower()}" for state in listed if counts.get(state))
    return f"{total} {'step' if total == 1 else 'steps'}: {parts}"


def title_of(tool_name: str, summary: str, cell: int | None = None) -> str:
    """What a call does, before the summary of its arguments; empty for a tool that is not built in. `cell` is the
    number of the cell that it is about."""
    if cell is not None and tool_name in TITLES_OF_CELLS:
        return TITLES_OF_CELLS[tool_name].format(cell=cell)
    title = TITLES.get(tool_name, "")
    return TITLES_OF.get(tool_name, title) if summary else title


def name_of(tool_name: str) -> str:
    """What a call does, without its arguments: `Run Python`; of a tool that is not built in its name."""
    return title_of(tool_name, "") or tool_name


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
    """The model, and what it is sent: `gpt-6-sol`, `gpt-6-sol · effort high`."""
    if run.recorded:
        return run.model
    model = MODEL_WITH_EFFORT.format(model=run.model, effort=run.effort) if run.effort else run.model
    return LEAN_MODEL.format(model=model) if run.lean else model


def recorded_words(run: RunView) -> str:
    """What answers in place of a model: `Recorded answers of sum.jsonl: no model is called`; empty for a model."""
    if not run.recorded:
        return ""
    kind, _, path = run.model.partition(":")
    if run.model == "demo":
        what = RECORDED["demo"]
    elif kind == "replay" and path:
        what = RECORDED["answersOf"].format(file=reveal(_SEPARATORS.split(path)[-1]))
    else:
        what = RECORDED["answers"]
    return RECORDED["noModel"].format(what=what)


def approved_by_recording(calls: Iterable[ToolCallView]) -> str:
    """`A recording approved 2 calls`; empty where it approved none."""
    count = sum(call.by == "script" and call.decided_by == RECORDED["by"] and call.state != "denied" for call in calls)
    return RECORDED["approvedOne" if count == 1 else "approved"].format(count=count) if count else ""


def continued_words(run: RunView) -> str:
    """The text `continued from cell [2]`, or nothing."""
    return "" if run.continues is None else CONTINUED.format(cell=run.continues)


def mention_words(run: RunView) -> str:
    """The text `read with the prompt: @sales, @[3]`, or nothing."""
    return MENTIONS.format(names=", ".join(run.mentions)) if run.mentions else ""


def instruction_words(run: RunView) -> str:
    """The text `followed AGENTS.md, ../AGENTS.md, 2 skills`, or nothing."""
    files = [one.file for one in run.instructions if not (one.off or one.skill)]
    skills = sum(one.skill and not one.off for one in run.instructions)
    if skills:
        files.append("1 skill" if skills == 1 else f"{skills} skills")
    return FOLLOWED.format(names=", ".join(files)) if files else ""


def policy_words(run: RunView, modes: Mapping[PolicyMode, str] = MODES) -> str:
    """The policy: `asks before acting, 2 always-allow rules, limited by .agent-kernel.toml: 1 rule`."""
    allowing = sum(rule.text.startswith("allow") for rule in run.policy.rules)
    others = len(run.policy.rules) - allowing
    parts = [modes[run.policy.mode]]
    if allowing:
        parts.append(RULES["allows" if allowing == 1 else "allow"].format(count=allowing))
    if others:
        parts.append(RULES["stops" if others == 1 else "stop"].format(count=others))
    if run.policy.limited_by is not None:
        parts.append(f"limited by {reveal(run.policy.limited_by)}")
    return ", ".join(parts)


def rule_text(text: str) -> str:
    """A rule to be read: `allow run_shell inside walls, this exact call`."""
    return _DIGEST.sub(lambda found: RULE_TEXTS[found[1]], text)


def rule_words(rule: RuleView) -> str:
    """The origin of a rule: `all notebooks, saved by ana on 2026-11-22`, `this notebook's code`."""
    match rule.origin:
        case "saved":
            where = _SCOPES[rule.scope] if rule.scope is not None else "saved"
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


def error_words(error: ErrorView) -> str:
    """The title of an error, before its message."""
    if error.code == "BUDGET_EXCEEDED":  # its message says whether it was reached, or could not be checked
        return ""
    if error.message.startswith(OWN_TITLES):
        return ""
    return ERRORS.get(error.code, "The run failed.")


def paused(pause: PauseView) -> str:
    """The wait of the run as a whole, in words."""
    if pause.repeated:
        return f"{PAUSED['repeats']}: {pause.repeated}"
    if pause.unpriced:
        return PAUSED["unpricedConversation" if pause.of == "conversation" else "unpricedRun"]
    return PAUSED["conversation" if pause.of == "conversation" else "run"]


def delayed(delay: DelayView, now: datetime | None = None) -> str:
    """The wait for a model's service: `Rate limited, next try in 24 s (try 2 of 4)`."""
    what, now = DELAYS[delay.kind], now or datetime.now(UTC)
    if delay.until is None:
        return f"{what}, {_whole((now - datetime.fromisoformat(delay.since)).total_seconds())}"
    left = (datetime.fromisoformat(delay.until) - now).total_seconds()
    next_try = DELAYED["next" if left > 0 else "now"].format(left=_whole(ceil(left)), gone=_whole(-left))
    count = f" ({DELAYED['count'].format(attempt=delay.attempt, tries=delay.tries)})" if delay.tries else ""
    return f"{what}, {next_try}{count}"


def _whole(seconds: float) -> str:
    return f"{max(0, round(seconds))}\u00a0s" if seconds < 60 else duration(1000 * seconds)


def raised(step: BudgetRaise) -> str:
    """The sentence `Budget raised by ana: 100,000 tokens, 10 min.`"""
    by = step.decided_by or "you"
    if step.repeated:
        return f"{RAISED['repeats'].format(repeated=step.repeated, by=by)}."
    if step.without_usd:
        return f"{RAISED['withoutUsd'].format(by=by)}."
    added = {"tokens": "tokens", "tool_calls": "tool calls", "steps": "steps"}
    parts = [f"{value:,} {unit}" for name, unit in added.items() if (value := getattr(step.add, name)) is not None]
    if step.add.usd is not None:
        parts.append(money(step.add.usd))
    if step.add.seconds is not None:
        parts.append(duration(step.add.seconds * 1000).removesuffix(" 0\u00a0s"))
    return f"{RAISED[step.of].format(by=by)}: {', '.join(parts)}."


def seen_pictures(seen: int, shown: int) -> str:
    """The sentence `The model has seen this plot.`"""
    which = "some" if seen < shown else "one" if seen == 1 else "all"
    return SEEN[which].format(seen=seen, shown=shown)


def stored(cached_at: str, ended_at: str) -> str:
    """The age of the outcome that a call was given: `from 2 minutes ago`."""
    age = datetime.fromisoformat(ended_at) - datetime.fromisoformat(cached_at)
    minutes = max(0, int(age.total_seconds() // 60))
    return STORED["now" if minutes == 0 else "one" if minutes == 1 else "more"].format(minutes=minutes)


def decided(call: ToolCallView) -> str:
    """Who decided, to follow the state: `approved by ana`, `allowed by policy`, `by a script`."""
    if call.by is None:
        return ""
    who = DECIDERS["policy"] if call.by == "policy" else call.decided_by or DECIDERS[call.by]
    if call.state in ("denied", "superseded", "expired", "invalid"):
        return f"by {who}" if call.state == "denied" else ""
    verb = "allowed" if call.by == "policy" else "approved"
    return f"{'edited and ' if call.edited else ''}{verb} by {who}"


def duration(milliseconds: float) -> str:
    """A duration for display: `< 0.1 s`, `0.3 s`, `41 s`, `1 min 42 s`, `2 h 5 min`. Its line does not break before a
    unit."""
    if milliseconds < 50:
        return "<\u00a00.1\u00a0s"
    if milliseconds < 9_950:
        return f"{int(milliseconds / 100 + 0.5) / 10:.1f}\u00a0s"
    whole = int(milliseconds / 1000 + 0.5)
    if whole < 60:
        return f"{whole}\u00a0s"
    if whole < 3600:
        return f"{whole // 60}\u00a0min {whole % 60}\u00a0s"
    return f"{whole // 3600}\u00a0h {whole % 3600 // 60}\u00a0min"


SHARED: Final[dict[str, Any]] = {
    "states": STATES,
    "titles": TITLES,
    "titlesOf": TITLES_OF,
    "titlesOfCells": TITLES_OF_CELLS,
    "modes": MODES,
    "rules": RULES,
    "ruleTexts": RULE_TEXTS,
    "seen": SEEN,
    "stored": STORED,
    "deciders": DECIDERS,
    "errors": ERRORS,
    "ownTitles": list(OWN_TITLES),
    "paused": PAUSED,
    "pausedBefore": PAUSED_BEFORE,
    "delays": DELAYS,
    "delayed": DELAYED,
    "raised": RAISED,
    "modelWithEffort": MODEL_WITH_EFFORT,
    "leanModel": LEAN_MODEL,
    "mentions": MENTIONS,
    "recorded": RECORDED,
    "nothingRan": NOTHING_RAN,
    "mayHaveRun": MAY_HAVE_RUN,
    "actions": ACTIONS,
    "card": CARD,
}
"""The texts that cards, the command line and the record share. `{name}` is a placeholder."""
