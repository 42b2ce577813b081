"""What else the endpoint of a model offers: models to name where one is not known there, or takes no tools."""

import difflib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

SUGGESTED = 5
"""Models that are named in place of one."""
_LIKENESS = 0.6


async def _ask_nobody() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Beside:
    """By what they are asked for. `names` and `with_tools` know what the endpoint has said by now."""

    look: Callable[[], Awaitable[object]] = _ask_nobody
    """Have the endpoint say what it offers. Takes a few seconds at most, and raises nothing."""
    names: Callable[[], Iterable[str]] = list
    with_tools: Callable[[], Iterable[str]] = list


NOTHING_BESIDE = Beside()


def near(wanted: str, names: Iterable[str]) -> list[str]:
    """The names that are most like one that is not among them; none where it is."""
    by_small = {name.lower(): name for name in names}
    small = wanted.lower()
    if small in by_small and by_small[small] == wanted:
        return []
    begun = sorted(name for name in by_small if name.startswith(small) or name.rpartition("/")[2].startswith(small))
    alike = difflib.get_close_matches(small, by_small, n=SUGGESTED, cutoff=_LIKENESS)
    return [by_small[name] for name in list(dict.fromkeys([*begun, *alike]))[:SUGGESTED]]
