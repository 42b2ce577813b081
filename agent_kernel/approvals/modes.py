"""The modes of a policy, by how much each permits."""

from agent_kernel.protocol.vocabulary import PolicyMode

# From the most to the least restrictive. A site's cap is the most permissive mode that a notebook may choose.
_STRICTNESS: tuple[PolicyMode, ...] = ("deny", "plan", "ask", "edit", "allow")


def exceeds(mode: PolicyMode, cap: PolicyMode | None) -> bool:
    """Whether a mode is more permissive than `cap`; nothing exceeds `None`."""
    return cap is not None and _STRICTNESS.index(mode) > _STRICTNESS.index(cap)
