"""What rules say of a call that opens a file: they judge what it opens, not only what it says."""

from collections.abc import Iterable, Mapping
from typing import Any

from agent_kernel.approvals.rules import Weighed, weigh_rules
from agent_kernel.protocol.views import Place


def weigh(
    texts: Iterable[str],
    tool: str,
    arguments: dict[str, Any],
    digest: str,
    parameters: Mapping[str, Any] | None = None,
    place: Place | None = None,
) -> Weighed:
    """As `weigh_rules`. Rules allow a file as it is opened; they deny it, or ask, also as its path is written. A rule
    for one exact call allows only a path without links: another day they may lead elsewhere."""
    texts = tuple(texts)
    written = weigh_rules(texts, tool, arguments, digest, parameters)
    if place is None:
        return written
    exact = "" if place.linked else digest
    opened = [weigh_rules(texts, tool, arguments | {"path": name}, exact, parameters) for name in place.spellings()]
    return Weighed(
        denied_by=next((said.denied_by for said in (written, *opened) if said.denied_by is not None), None),
        asks=any(said.asks for said in (written, *opened)),
        allows=any(said.allows for said in opened),
    )
