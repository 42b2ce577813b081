"""The options of a run that a user sets in Python: `Policy`, with a script, and `Budget`."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Self, cast, get_args

from agent_kernel.approvals.limits import checked_limits
from agent_kernel.approvals.rules import Rule
from agent_kernel.approvals.scripted import ScriptedDecision, ScriptEntry
from agent_kernel.approvals.scripted import script as decisions_of
from agent_kernel.errors import ConfigurationError
from agent_kernel.protocol.kernel import MOST_RULE_CHARACTERS, MOST_RULES
from agent_kernel.protocol.vocabulary import BudgetLimits, Effort, PolicyMode


@dataclass(frozen=True, slots=True)
class Policy:
    """Decides which calls need approval. Rules that deny win over rules that ask, and those over rules that allow.

    `rules`: for example `["allow run_python", 'deny run_shell where command matches "curl *"']`.
    `default`, for calls that no rule matches: "ask", "edit" (asks, except for files in the notebook's folder), "allow",
    "deny", or "plan" (only read-only calls).
    Raises `ConfigurationError` for a rule that can't be parsed, an unknown default, or too many rules.
    """

    rules: Sequence[str] = ()
    default: PolicyMode = "ask"
    script: tuple[ScriptedDecision, ...] = ()
    """See `scripted`."""

    @classmethod
    def scripted(
        cls, decisions: Iterable[ScriptEntry], *, rules: Sequence[str] = (), default: PolicyMode = "ask"
    ) -> Self:
        """A policy whose questions a script answers in place of a person, in each run from its first decision on.

        `decisions` are of the forms that `approvals` of `Agent.run` takes: `[True, (False, "why"),
        ak.approve("drop_rows", {"table": "t"}), ak.edit({"n": 5}, "head"), ak.answer("Yes.")]`. A call that asks takes
        the first that covers it, each is used once, and a call that none covers is denied. What `rules` or `default`
        deny stays denied, and where a site or a file in the notebook's folder wants a person to be asked, a script does
        not approve. Raises `ConfigurationError`.
        """
        return cls(rules, default, decisions_of(decisions))

    def __post_init__(self) -> None:
        if self.default not in get_args(PolicyMode):
            raise ConfigurationError(f"There is no policy {self.default!r}. Use ask, edit, allow, deny or plan.")
        rules = (self.rules,) if isinstance(self.rules, str) else self.rules
        if not isinstance(rules, Sequence) or not all(isinstance(rule, str) for rule in rules):
            raise ConfigurationError("rules is a list of texts, such as ['deny run_shell'].")
        object.__setattr__(self, "rules", tuple(rules))
        if len(self.rules) > MOST_RULES or any(len(rule) > MOST_RULE_CHARACTERS for rule in self.rules):
            raise ConfigurationError(
                f"A policy has at most {MOST_RULES} rules, each of at most {MOST_RULE_CHARACTERS} characters."
            )
        for rule in self.rules:
            Rule.parse(rule)


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of a run, or of a conversation. `None` sets no limit here; the site's still applies.

    `tokens`: input and output tokens. `tool_calls`, `steps`: numbers of calls and of model turns.
    `seconds`: working time; the time in which a run only waits for a person does not count. A call or an answer that
    goes on when the time is up is interrupted.
    `usd`: US dollars. If the model's price is not known, the run asks, or ends if there is nobody to ask; a local model
    costs nothing.
    Raises `ConfigurationError` for a limit that is not a number of 0 or more.
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


def as_effort(effort: str | None) -> Effort | None:
    """The effort, checked. Raises `ConfigurationError`."""
    if effort is not None and effort not in get_args(Effort):
        raise ConfigurationError(f"There is no effort {effort!r}. Use low, medium or high.")
    return cast("Effort | None", effort)
