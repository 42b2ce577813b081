"""What all rounds have in common: what must hold in each, and how those on a real server are played."""

import asyncio
import contextlib
import tempfile
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import aiohttp

from agent_kernel.testing import FakeOpenAI
from tests.faults import checks
from tests.faults.figures import Figures
from tests.faults.planned_model import PlannedModel
from tests.faults.server import Server

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


@dataclass
class Round:
    seed: int
    number: int
    counter: Path
    """Where each call that runs leaves its mark."""
    name: str = field(init=False)
    random: Random = field(init=False)
    """The seed and the round's number say what happens in it, to the limits of real time."""
    figures: Figures = field(default_factory=lambda: Figures(rounds=1), kw_only=True)

    def __post_init__(self) -> None:
        self.name = f"s{self.seed}r{self.number}"
        self.random = Random(self.seed * 100_000 + self.number)

    def fault(self, name: str, note: str) -> None:
        self.figures.fault(name, f"{note} [{self.name}]")

    def check_calls(self, calls: Iterable[Mapping[str, Any]]) -> None:
        """Of all calls of the round."""
        for name, note in checks.call_faults(calls, checks.counted(self.counter)):
            self.fault(name, note)

    def check_frames(self, frames: Collection[Mapping[str, Any]]) -> None:
        """Of all events of a conversation, in the order of their `seq`."""
        for note in checks.gaps([frame["seq"] for frame in frames], 0):
            self.fault("events_missing", f"{note} of all that was ever sent")
        for card, state in checks.cards(frames).items():
            if state not in checks.FINAL:
                self.fault("buttons_dead", f"the card {card} is left {state}")

    def check_request(self, messages: Iterable[Mapping[str, Any]]) -> None:
        """Of what the model was sent."""
        for note in checks.orphans(messages):
            self.fault("orphan_tool_calls", note)


@dataclass
class ServerRound(Round):
    """On a real server, which rounds share."""

    server: Server

    async def views(self) -> list[Any]:
        """The conversations in which a person decides."""
        found: list[Any] = await self.server.api("GET", "conversations")
        return found

    def python_plan(self, seconds: list[float], pauses: list[float]) -> dict[str, Any]:
        """Calls that leave marks. `seconds` says how long each may take, `pauses` how long the model between words."""
        return {
            "steps": [self.random.randint(1, 2) for _ in range(self.random.randint(1, 2))],
            "tool": "run_python",
            "counter": str(self.counter),
            "seconds": self.random.choice(seconds),
            "pause": self.random.choice(pauses),
        }

    async def person(self) -> None:
        """Decides what waits, after a while, whether the server is there or not."""
        while True:
            await asyncio.sleep(self.random.uniform(0.02, 0.2))
            with contextlib.suppress(aiohttp.ClientError, AssertionError, RuntimeError):
                for view in await self.views():
                    if self.random.random() < 0.5:
                        await self.decide(view, approved=self.random.random() < 0.85)

    async def decide(self, view: Any, *, approved: bool) -> None:
        """Press a button of each card that waits."""
        for call in view["tool_calls"]:
            if call["state"] == "awaiting_approval":
                approval_id, digest = call["approval_id"], call["digest"]
                status, body = await self.server.decide(approval_id, approved=approved, digest=digest)
                if status not in (200, 409) or (status == 409 and body["state"] == "awaiting_approval"):
                    self.fault("buttons_dead", f"{call['tool_call_id']} waited, and its decision met {status} {body}")

    async def continue_unknown(self, view: Any) -> None:
        """Answer for calls of which nobody knows whether they ran."""
        for call in view["tool_calls"]:
            if call["state"] == "unknown" and call["unknown_answer"] is None:
                path = f"agent-kernel/api/approvals/{call['approval_id']}/outcome"
                status, _ = await self.server.ask("POST", path, {"answer": "continue"})
                self.figures.outcomes_answered += status == 200


RoundT = TypeVar("RoundT", bound=ServerRound)
Play = Callable[[RoundT], Awaitable[None]]


async def play_all(rounds: int, seed: int, first: int, kind: type[RoundT], play: Play[RoundT]) -> Figures:
    """Play that many rounds on one server."""
    figures = Figures()
    with (
        tempfile.TemporaryDirectory(prefix="agent-kernel-faults-", ignore_cleanup_errors=True) as directory,
        FakeOpenAI([PlannedModel()], repeat=True) as model,
    ):
        async with Server(Path(directory), model.environment()) as server:
            for number in range(first, first + rounds):
                round_ = kind(seed, number, Path(directory) / f"counter-{number}", server)
                try:
                    await play(round_)
                except (AssertionError, TimeoutError) as stuck:
                    round_.fault("runs_left_open", f"stuck: {stuck!r}")
                for request in model.requests:
                    round_.check_request(request.body["messages"])
                model.requests.clear()
                figures.add(round_.figures)
    return figures
