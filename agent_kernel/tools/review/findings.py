"""The effects that are found in code or commands, and how they become the warnings of a card."""

from collections.abc import Iterable
from typing import Literal

from agent_kernel.protocol.views import Warning
from agent_kernel.tools.review.hidden import reveal

Effect = Literal[
    "Installs packages:",
    "Runs as administrator:",
    "Deletes files:",
    "Deletes rows:",
    "Deletes columns:",
    "Deletes variables:",
    "Deletes remote data:",
    "Changes a database:",
    "Discards changes:",
    "Overwrites history:",
    "Writes to a disk:",
    "Writes files:",
    "Changes permissions:",
    "Changes the kernel:",
    "Stops processes:",
    "Runs shell commands:",
    "Runs code it builds:",
    "Loads data that may run code:",
    "Loads native code:",
    "Uses the network:",
    "Reads secrets:",
    "Reads the environment:",
    "Contains secrets:",
    "Shows HTML or script:",
    "Hidden characters:",
    "Not checked:",
]
Finding = tuple[Effect, str]

_DETAILS = 5
_DETAIL = 120
_LOOKED_AT = 1_000
"""The most characters of a detail that are processed; at most `_DETAIL` are shown."""


def gather(findings: Iterable[Finding]) -> list[Warning]:
    """One warning per effect, in order of first appearance, with up to five details."""
    by_effect: dict[Effect, dict[str, None]] = {}
    for effect, detail in findings:
        by_effect.setdefault(effect, {})[_short(detail)] = None
    warnings = []
    for effect, found in by_effect.items():
        details = [detail for detail in found if detail]
        more = f" and {len(details) - _DETAILS} more" if len(details) > _DETAILS else ""
        warnings.append(Warning(title=effect, detail=", ".join(details[:_DETAILS]) + more))
    return warnings


def _short(detail: str) -> str:
    line = reveal(" ".join(detail[:_LOOKED_AT].split()))
    return line if len(line) <= _DETAIL else f"{line[: _DETAIL - 3]}..."
