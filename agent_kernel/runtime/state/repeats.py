"""Detects a run that repeats itself: the same calls with the same results, step after step.

A step is the calls of one model turn. Calls whose results differ, such as polling, are no repetition.
"""

from collections.abc import Sequence

from agent_kernel.protocol.views import ToolCallView

SAME_TIMES, PATTERN_TIMES = 3, 4
"""The number of times that one step in a row, or two steps in turn, count as a repetition."""
_TIMES = {SAME_TIMES: "three times", PATTERN_TIMES: "four times in turn"}


class Repeats:
    """For one run, since a person has let it continue."""

    def __init__(self) -> None:
        self._steps: tuple[int, ...] = ()
        self._tools: tuple[tuple[str, ...], ...] = ()

    def add(self, step: Sequence[ToolCallView]) -> None:
        """Note the calls of a step, which have ended. The texts themselves are not kept, only hashes."""
        done = hash(tuple(sorted((one.tool_name, one.tool_input, one.result or "") for one in step)))
        self._steps = (*self._steps, done)[-2 * PATTERN_TIMES :]
        self._tools = (*self._tools, tuple(one.tool_name for one in step))[-2:]

    def forget(self) -> None:
        self._steps = self._tools = ()

    def found(self) -> str:
        """A description of what is repeated; empty where nothing is."""
        steps = self._steps
        if len(steps) >= SAME_TIMES and len(set(steps[-SAME_TIMES:])) == 1:
            return _said(self._tools[-1], SAME_TIMES)
        if len(steps) == 2 * PATTERN_TIMES and len(set(steps[::2])) == len(set(steps[1::2])) == 1:
            return _said([*self._tools[0], *self._tools[1]], PATTERN_TIMES)
        return ""


def _said(tools: Sequence[str], times: int) -> str:
    names = list(dict.fromkeys(tools))
    listed = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
    same = "the same result" if len(tools) == 1 else "the same results"
    return f"{listed} gave {same} to the same arguments {_TIMES[times]}"
