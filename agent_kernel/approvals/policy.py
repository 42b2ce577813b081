"""Policy: deny > ask > allow, default ask, fail closed.

A judgement depends on the tool's declaration, the run's mode, the rules of the run and the site, and the rules that
people saved. It is pure: the same call under the same policy gets the same judgement. Calls are judged again at
execution.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from agent_kernel.approvals.rules import JudgedCall, Rule, leaves_walls, weigh
from agent_kernel.protocol.calls import Place
from agent_kernel.protocol.vocabulary import Approval, DecisionSource, PolicyMode

# From the most to the least restrictive. A site's cap is the most permissive mode that a notebook may choose.
_STRICTNESS: tuple[PolicyMode, ...] = ("deny", "plan", "ask", "edit", "allow")


def exceeds(mode: PolicyMode, cap: PolicyMode | None) -> bool:
    """Whether a mode is more permissive than `cap`; nothing exceeds `None`."""
    return cap is not None and _STRICTNESS.index(mode) > _STRICTNESS.index(cap)


@dataclass(frozen=True, slots=True)
class Judgement:
    approval: Approval
    reason: str | None = None
    """Why a call is denied, as the card shows it."""
    place: Place | None = None
    """For a call of a file tool: the place that was judged, the only one that it may open."""
    walls: str = ""
    """For a shell command: the walls that were judged, in the words of its card."""
    source: DecisionSource = "policy"
    """What decided: a rule, or the rest of the policy."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The effective policy of a run. `Policy(rules=["deny run_shell"], default="ask")` is the public form."""

    rules: Sequence[str] = ()
    default: PolicyMode = "ask"

    def __post_init__(self) -> None:
        for text in self.rules:
            Rule.parse(text)

    def capped(self, cap: PolicyMode | None) -> "Policy":
        """This policy with its mode lowered to `cap` where it exceeds it."""
        return self if cap is None or not exceeds(self.default, cap) else Policy(self.rules, cap)

    def judge(self, call: JudgedCall) -> Judgement:
        said = weigh(self.rules, call)
        if said.denied_by is not None:
            return Judgement("deny", f"By policy: {said.denied_by}.", source="rule")
        if call.declared == "deny":
            if call.checks_itself:
                return Judgement(
                    "deny", f"The check of {call.tool_name} itself refused these arguments. Others may pass."
                )
            return Judgement("deny", f"By policy: the tool {call.tool_name} is declared as never to be run.")
        asks = call.always_asks or said.asks
        if self.default in ("deny", "plan"):
            return self._by_strict_mode(call, asks=asks)
        if asks:
            return Judgement("ask")
        if said.allows:
            return Judgement("allow", source="rule")
        if leaves_walls(call.tool_name, call.arguments):
            return Judgement("ask")  # in every mode
        if self.default == "allow":
            return Judgement("allow")
        if self.default == "edit" and call.edits_in_folder:
            return Judgement("allow")
        return Judgement(call.declared)

    def _by_strict_mode(self, call: JudgedCall, *, asks: bool) -> Judgement:
        """The judgement in the modes `deny` and `plan`, which win over rules that allow."""
        if self.default == "deny":
            return Judgement("deny", "The policy of this run denies every action.")
        if call.read_only and call.declared == "allow":
            return Judgement("ask" if asks else "allow")
        return Judgement("deny", "Plan only: reads, never acts.")
