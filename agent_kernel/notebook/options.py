"""What a user may set for a run."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import cast, get_args

from agent_kernel.approvals.limits import checked_limits
from agent_kernel.approvals.rules import Rule
from agent_kernel.approvals.scripted import ScriptedDecision
from agent_kernel.errors import ConfigurationError
from agent_kernel.protocol.kernel import MOST_RULE_CHARACTERS, MOST_RULES
from agent_kernel.protocol.views import BudgetLimits
from agent_kernel.protocol.vocabulary import Effort, PolicyMode

Decision = ScriptedDecision | bool | tuple[bool, str]


@dataclass(frozen=True, slots=True)
class Policy:
    """Which calls ask. A rule that denies wins over one that asks, and that over one that allows.

    `rules`: for example `["allow run_python", 'deny run_shell where command matches "curl *"']`.
    `default`, for calls that no rule covers: "ask", "edit" (asks, but for files in the notebook's folder), "allow",
    "deny", or "plan" (read-only calls only).
    Raises `ConfigurationError` for a rule or a word that is not understood.
    """

    rules: Sequence[str] = ()
    default: PolicyMode = "ask"

    def __post_init__(self) -> None:
        if self.default not in get_args(PolicyMode):
            raise ConfigurationError(f"There is no policy {self.default!r}. Use ask, edit, allow, deny or plan.")
        object.__setattr__(self, "rules", (self.rules,) if isinstance(self.rules, str) else tuple(self.rules))
        if len(self.rules) > MOST_RULES or any(len(rule) > MOST_RULE_CHARACTERS for rule in self.rules):
            raise ConfigurationError(
                f"A policy has at most {MOST_RULES} rules, each of at most {MOST_RULE_CHARACTERS} characters."
            )
        for rule in self.rules:
            Rule.parse(rule)


@dataclass(frozen=True, slots=True)
class Budget:
    """Hard limits; `None` is no limit of your own. `seconds` is the time that a run works: the time in which it only
    waits for you is not counted. A call or an answer that goes on when it is up is interrupted.

    `usd`: US dollars. Where no price is known for the model the run asks, or ends where nobody is there to ask; a local
    model costs nothing. Raises `ConfigurationError` for a limit that is no number of 0 or more.
    """

    tokens: int | None = None
    tool_calls: int | None = None
    seconds: float | None = None
    steps: int | None = None
    usd: float | None = None

    def __post_init__(self) -> None:
        self.limits()

    def limits(self) -> BudgetLimits:
        return checked_limits(asdict(self), "Budget")


def as_policy(policy: "Policy | PolicyMode | None") -> Policy:
    """Raises `ConfigurationError`."""
    if policy is None:
        return Policy()
    return policy if isinstance(policy, Policy) else Policy(default=policy)


def as_effort(effort: str | None) -> Effort | None:
    """Raises `ConfigurationError`."""
    if effort is not None and effort not in get_args(Effort):
        raise ConfigurationError(f"There is no effort {effort!r}. Use low, medium or high.")
    return cast("Effort | None", effort)


def as_decisions(approvals: Iterable[Decision] | None) -> tuple[ScriptedDecision, ...]:
    """`True`, `(False, "why")` or a `ScriptedDecision` each; they answer the calls in order."""
    decisions: list[ScriptedDecision] = []
    for one in approvals or ():
        if isinstance(one, ScriptedDecision):
            decisions.append(one)
        elif isinstance(one, bool):
            decisions.append(ScriptedDecision(one))
        else:
            decisions.append(ScriptedDecision(one[0], reason=one[1]))
    return tuple(decisions)
