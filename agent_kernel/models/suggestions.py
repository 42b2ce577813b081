"""Suggests other models of an endpoint in error messages, for an unknown name or a model that takes no tools."""

import difflib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass

SUGGESTED = 5
"""The most models to suggest."""
_LIKENESS = 0.6


async def _do_nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class OtherModels:
    """Access to an endpoint's list of models. `names` and `with_tools` return what is known at the moment: the names
    that the service gives its models, each with its name for `--model`."""

    refresh: Callable[[], Awaitable[object]] = _do_nothing
    """Fetch the endpoint's list. Takes a few seconds at most, and raises nothing."""
    names: Callable[[], Mapping[str, str]] = dict
    with_tools: Callable[[], Mapping[str, str]] = dict


NO_OTHER_MODELS = OtherModels()


def near(wanted: str, names: Iterable[str]) -> list[str]:
    """The names most similar to `wanted`; none if `wanted` is among them."""
    by_small = {name.lower(): name for name in names}
    small = wanted.lower()
    if small in by_small and by_small[small] == wanted:
        return []
    begun = sorted(name for name in by_small if name.startswith(small) or name.rpartition("/")[2].startswith(small))
    alike = difflib.get_close_matches(small, by_small, n=SUGGESTED, cutoff=_LIKENESS)
    return [by_small[name] for name in list(dict.fromkeys([*begun, *alike]))[:SUGGESTED]]
