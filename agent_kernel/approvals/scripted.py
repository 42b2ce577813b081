"""Scripts: decisions that were written down beforehand, and the order in which they are used; and what answers calls
that ask where nobody sits in front of the notebook (`AGENT_KERNEL_APPROVE`).

What a script may approve is judged in `agent_kernel.runtime.tool_calls.script_decisions`; this module is pure.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, assert_never, cast, get_args

from agent_kernel.errors import ConfigurationError, InvalidArguments
from agent_kernel.protocol.decisions import MOST_DECISIONS, ScriptedDecision
from agent_kernel.tools.arguments import canonical, digest, parse
from agent_kernel.tools.function import as_tool
from agent_kernel.tools.tool import Tool

if TYPE_CHECKING:
    from agent_kernel.protocol.views import ToolCallView

__all__ = [
    "VARIABLE",
    "ApprovalMode",
    "Script",
    "ScriptEntry",
    "ScriptedDecision",
    "ToolName",
    "answer",
    "approval_mode",
    "approve",
    "approve_all",
    "deny",
    "deny_all",
    "edit",
    "script",
    "unattended_decisions",
]

ScriptEntry = ScriptedDecision | bool | str | tuple[bool, str] | tuple[str, bool] | tuple[str, bool, str]
"""A decision; `True` or `False` for any tool; a text, which is the reason of a denial; (False, reason); or (tool name,
approved) and (tool name, approved, reason)."""

ToolName = str | Tool | Callable[..., Any]
"""A tool, by its name or as it was given to the agent: a function or what `ak.tool` made of it."""

VARIABLE = "AGENT_KERNEL_APPROVE"
ApprovalMode = Literal["none", "recorded", "all"]
"""`none`: only decisions that the notebook's code scripts; `recorded`: else those of the model's recording; `all`: else
every such call is approved. What a rule denies is denied in each of them."""

_SHOWN = 600
"""Characters of a call's arguments in the reason of a denial."""


def approve(tool: ToolName | None = None, arguments: Mapping[str, Any] | None = None) -> ScriptedDecision:
    """Approve the next call: of any tool, of this one, or of this one with exactly these arguments."""
    return ScriptedDecision(approved=True, tool_name=_name(tool), arguments=_checked(arguments))


def deny(reason: str | None = None, tool: ToolName | None = None) -> ScriptedDecision:
    """Deny the next call, of any tool or of this one. The model gets the reason."""
    return ScriptedDecision(approved=False, tool_name=_name(tool), reason=reason)


def edit(arguments: Mapping[str, Any], tool: ToolName) -> ScriptedDecision:
    """Run the next call of this tool with these arguments, which are checked as a person's edit is."""
    return ScriptedDecision(approved=True, tool_name=_name(tool), edited_input=_checked(arguments))


def answer(text: str, tool: ToolName = "ask_user") -> ScriptedDecision:
    """Answer the next question of the model."""
    return ScriptedDecision(approved=True, tool_name=_name(tool), answer=text)


def approve_all(*, times: int = MOST_DECISIONS) -> tuple[ScriptedDecision, ...]:
    """Approve the next `times` calls, whatever they are."""
    return (ScriptedDecision(approved=True),) * times


def deny_all(reason: str | None = None, *, times: int = MOST_DECISIONS) -> tuple[ScriptedDecision, ...]:
    """Deny the next `times` calls, whatever they are."""
    return (ScriptedDecision(approved=False, reason=reason),) * times


def script(entries: Iterable[ScriptEntry]) -> tuple[ScriptedDecision, ...]:
    """Answer the calls in order: `script([True, "not that table", ("run_shell", False)])`. Raises
    `ConfigurationError` for an entry of another form, and for more than 1,000."""
    if isinstance(entries, str | bool | ScriptedDecision):
        raise ConfigurationError("Decisions are a list, such as [True] or [ak.approve('run_python')].")
    decisions = tuple(_decision(entry) for entry in entries)
    if len(decisions) > MOST_DECISIONS:
        raise ConfigurationError(f"A script has at most {MOST_DECISIONS:,} decisions; this one has {len(decisions):,}.")
    return decisions


def _decision(entry: ScriptEntry) -> ScriptedDecision:
    if isinstance(entry, ScriptedDecision):
        _check_texts(entry)
        return entry
    parts: tuple[object, ...] = entry if isinstance(entry, tuple) else (entry,)
    match parts:
        case (bool(approved),):
            return ScriptedDecision(approved)
        case (str(reason),):
            return ScriptedDecision(approved=False, reason=reason)
        case (bool(approved), str(reason)):
            return ScriptedDecision(approved, reason=reason)
        case (str(tool_name), bool(approved)):
            return ScriptedDecision(approved, tool_name)
        case (str(tool_name), bool(approved), str(reason)):
            return ScriptedDecision(approved, tool_name, reason)
    raise ConfigurationError(
        f"{str(entry)[:100]!r} is no decision. Use True, False, (False, 'why'), or ak.approve, ak.deny, ak.edit, "
        "ak.answer."
    )


def _check_texts(decision: ScriptedDecision) -> None:
    """Raises `ConfigurationError`."""
    for name in ("tool_name", "reason", "answer"):
        if not isinstance(value := getattr(decision, name), str | None):
            raise ConfigurationError(f"The {name} of a decision is text, not {type(value).__name__!r}.")


def _name(tool: ToolName | None) -> str | None:
    """The name of a tool. Raises `ToolDeclarationError` for what is no tool."""
    return tool if tool is None or isinstance(tool, str) else as_tool(tool).declaration.name


def _checked(arguments: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if arguments is None:
        return None
    if not isinstance(arguments, Mapping):
        raise ConfigurationError(
            f"The arguments of a decision are a dict, such as {{'code': '1 + 1'}}, not {type(arguments).__name__!r}."
        )
    try:
        return parse(dict(arguments))
    except InvalidArguments as error:
        raise ConfigurationError(f"The arguments of a decision can't be those of a call. {error}") from None


def covers(decision: ScriptedDecision, call: "ToolCallView") -> bool:
    """Whether a decision may be on this call."""
    if decision.tool_name not in (None, call.tool_name):
        return False
    if decision.digest is not None:
        return decision.digest == call.digest
    if decision.arguments is None:
        return True
    try:
        return digest(canonical(decision.arguments)) == call.digest
    except InvalidArguments:
        return False


class Script:
    """The decisions of one run that are left. Each is used once, in the order in which they are given."""

    def __init__(self, decisions: Iterable[ScriptedDecision] = ()) -> None:
        self._left = list(decisions)
        self._answers: dict[str, str] = {}
        self.given = bool(self._left)
        """Whether the run has a script, used up or not: what a script does not cover, it does not approve."""
        self.recorded = any(one.recorded for one in self._left)
        """Whether the decisions are a recording's: what they do not cover may have become another call since."""

    def take(self, call: "ToolCallView", *, question: bool) -> ScriptedDecision | None:
        """The next decision that covers a call. A question needs an answer, or a denial that names its tool."""
        for index, decision in enumerate(self._left):
            if covers(decision, call) and _fits(decision, question=question):
                return self._left.pop(index)
        return None

    def keep_answer(self, tool_call_id: str, text: str) -> None:
        """Keep the answer to a question until its call starts."""
        self._answers[tool_call_id] = text

    def take_answer(self, tool_call_id: str) -> str | None:
        return self._answers.pop(tool_call_id, None)

    def note_used(self, call: "ToolCallView", *, approved: bool, edited: bool, question: bool) -> None:
        """Take the decision out that was used for a call in the log, after the run came back into memory."""
        for index, decision in enumerate(self._left):
            if decision.approved is not approved or not _fits(decision, question=question):
                continue
            if edited:
                new = decision.edited_input
                used = new is not None and digest(canonical(new)) == call.digest
                used = used and decision.tool_name in (None, call.tool_name)
            else:
                used = decision.edited_input is None and covers(decision, call)
            if used:
                del self._left[index]
                return

    def uncovered(self, call: "ToolCallView") -> str:
        """Why a call that no decision covers is not approved, with the nearest decision and the call one below the
        other."""
        actual = f"{call.tool_name} {call.tool_input}"
        near = next((one for one in self._left if one.tool_name == call.tool_name), next(iter(self._left), None))
        what, kind = ("recording", "recorded") if self.recorded else ("run's script", "scripted")
        expected = "no decision is left" if near is None else _described(near)
        advice = "Record it again to decide otherwise." if self.recorded else "Give the run a decision on it."
        sides = f"{kind}: {expected[:_SHOWN]}\nactual:   {actual[:_SHOWN]}"
        return f"The {what} has no decision on this call.\n{sides}\n{advice}"


def _fits(decision: ScriptedDecision, *, question: bool) -> bool:
    if not question:
        return decision.answer is None
    return decision.answer is not None or (not decision.approved and decision.tool_name is not None)


def _described(decision: ScriptedDecision) -> str:
    name = decision.tool_name or "any tool"
    if decision.arguments is not None:
        return f"{name} {canonical(decision.arguments)}"
    return f"{name} with arguments of the digest {decision.digest}" if decision.digest is not None else name


def approval_mode(environ: Mapping[str, str]) -> ApprovalMode:
    """The mode that the environment sets; `recorded` if it sets none. Raises `ConfigurationError`."""
    wanted = environ.get(VARIABLE, "").strip() or "recorded"
    if wanted in get_args(ApprovalMode):
        return cast("ApprovalMode", wanted)
    raise ConfigurationError(f"{VARIABLE} is {wanted!r}. Set it to none, recorded or all.")


def unattended_decisions(
    mode: ApprovalMode, *, by_hand: Sequence[ScriptedDecision], recorded: Sequence[ScriptedDecision]
) -> tuple[ScriptedDecision, ...]:
    """The decisions for the calls of one run, in order. A call that none of them fits is denied."""
    match mode:
        case "none":
            return tuple(by_hand)
        case "recorded":
            return tuple(by_hand or recorded)
        case "all":
            return (*by_hand, *approve_all())
        case _:
            assert_never(mode)
