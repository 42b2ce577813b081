"""What answers the calls that ask, where nobody sits in front of the notebook: `AGENT_KERNEL_APPROVE`."""

from collections.abc import Mapping, Sequence
from typing import Literal, assert_never, get_args

from agent_kernel.approvals.scripted import ScriptedDecision, approve_all
from agent_kernel.errors import ConfigurationError

VARIABLE = "AGENT_KERNEL_APPROVE"
ApprovalMode = Literal["none", "recorded", "all"]
"""`none`: only decisions that the notebook's code scripts; `recorded`: else those of the model's recording; `all`: else
every such call is approved. What a rule denies is denied in each of them."""


def approval_mode(environ: Mapping[str, str]) -> ApprovalMode:
    """The mode that the environment sets; `recorded` if it sets none. Raises `ConfigurationError`."""
    wanted = environ.get(VARIABLE, "").strip() or "recorded"
    for mode in get_args(ApprovalMode):
        if wanted == mode:
            found: ApprovalMode = mode
            return found
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
