"""What rounds on a real server have in common: how they are played one after another, and what must hold in each."""

import random
import tempfile
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from agent_kernel.testing import FakeOpenAI
from tests.faults import checks
from tests.faults.figures import Figures
from tests.faults.planned_model import PlannedModel
from tests.faults.server import Server


@dataclass
class Round:
    name: str
    random: random.Random
    server: Server
    counter: Path
    figures: Figures = field(default_factory=lambda: Figures(rounds=1), kw_only=True)

    def fault(self, name: str, note: str) -> None:
        self.figures.fault(name, f"{note} [{self.name}]")

    async def decide(self, call: dict[str, Any], **decision: Any) -> None:
        """Press a button of a card that waits."""
        status, body = await self.server.decide(call["approval_id"], **decision)
        if status not in (200, 409) or (status == 409 and body["state"] == "awaiting_approval"):
            self.fault("buttons_dead", f"{call['tool_call_id']} waited, and its decision met {status} {body}")

    def check_call(self, call: dict[str, Any], times: int) -> None:
        """Of a call that ran so many times."""
        name, state = call["tool_call_id"], call["state"]
        if times > 1:
            self.fault("calls_run_twice", f"{name} ran {times} times")
        if times and (state in checks.DID_NOT_RUN or call["by"] is None):
            self.fault("ran_undecided", f"{name} ran and is {state}")
        if state not in checks.FINAL or (times == 0 and state == "success"):
            self.fault("dishonest_states", f"{name} is {state} and ran {times} times")
        elif not call["result"]:
            self.fault("dishonest_states", f"the model hears nothing of {name}, which is {state}")

    def check_frames(self, frames: Iterable[dict[str, Any]]) -> None:
        """Of all events of a conversation, in the order of their `seq`."""
        frames = list(frames)
        for note in checks.gaps([frame["seq"] for frame in frames], 0):
            self.fault("events_missing", f"{note} of all that was ever sent")
        for card, state in checks.cards(frames).items():
            if state not in checks.FINAL:
                self.fault("buttons_dead", f"the card {card} is left {state}")


RoundT = TypeVar("RoundT", bound=Round)
Play = Callable[[RoundT], Awaitable[None]]


async def play_all(rounds: int, seed: int, first: int, kind: type[RoundT], play: Play[RoundT]) -> Figures:
    """Play that many rounds on one server. The seed and a round's number say what happens in it, to the limits of real
    time."""
    figures = Figures()
    with (
        tempfile.TemporaryDirectory(prefix="agent-kernel-faults-", ignore_cleanup_errors=True) as directory,
        FakeOpenAI([PlannedModel()], repeat=True) as model,
    ):
        async with Server(Path(directory), model.environment()) as server:
            for number in range(first, first + rounds):
                name = f"s{seed}r{number}"
                chance = random.Random(seed * 100_000 + number)
                round_ = kind(name, chance, server, Path(directory) / f"counter-{name}")
                try:
                    await play(round_)
                except (AssertionError, TimeoutError) as stuck:
                    round_.fault("runs_left_open", f"stuck: {stuck!r}")
                for request in model.requests:
                    for note in checks.orphans(request.body["messages"]):
                        round_.fault("orphan_tool_calls", note)
                model.requests.clear()
                figures.add(round_.figures)
    return figures
