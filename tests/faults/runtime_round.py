"""What is known of one round on a runtime process, over all its lives."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agent_kernel.tools import outcome_texts
from tests.faults import life
from tests.faults.figures import Figures

MOMENTS: dict[str, tuple[str, ...]] = {
    "while the model streams": ("token", "tool_state"),
    "while an approval is pending": ("approval_request",),
    "between approval and start": ("approval_response",),
    "while a tool runs": ("tool_start", "tool_output"),
    "between outcome and continuation": ("tool_complete",),
    "as a decision is sent": (),
    "at any time": (),
}
"""When a process is killed, and the events that say that it is then."""

Calls = dict[str, dict[str, Any]]
"""The calls of a log, by id, as `checks.read_log` has them."""


@dataclass
class Round:
    """What the driver knows. `watched`: a page shows the run, so a person is asked about unknown outcomes."""

    name: str
    random: random.Random
    setup: life.Setup
    requests: Callable[[], list[Any]]
    """What the model was asked in this round."""
    watched: bool = False
    frames: dict[int, str] = field(default_factory=dict)
    approved: set[str] = field(default_factory=set)
    """Approvals of which the runtime said that they are decided."""
    answered: set[str] = field(default_factory=set)
    """Calls with an unknown outcome of which the runtime said that they are answered for."""
    prompts: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    """Messages that the runtime has taken."""
    figures: Figures = field(default_factory=Figures)

    def fault(self, name: str, note: str) -> None:
        self.figures.fault(name, f"{note} [{self.name}]")

    def was_told(self, tool_call_id: str, since: int) -> bool:
        """Whether the model has heard of a call whose outcome is unknown, in the requests from this number on.

        What an earlier process has told it is no dishonesty but where that was that nobody knows: the model is asked
        while an outcome is on its way to disk, and a process that is killed then has told it of one that the log does
        not have.
        """

        def tells(request: Any, beginning: str) -> bool:
            return any(
                message.get("tool_call_id") == tool_call_id and str(message["content"]).startswith(beginning)
                for message in request.body["messages"]
            )

        requests = self.requests()
        unknown = outcome_texts.UNKNOWN_PREFIX
        return any(tells(request, "" if number >= since else unknown) for number, request in enumerate(requests))
