"""Rounds on a runtime process: a run with approvals, killed at a random moment up to three times, then let end.

The kernel of these rounds outlives the runtime, so its runs go on: what waited has to wait again, what was approved has
to start once, what was executing has to be unknown. Every second round is watched by a page: there a call runs at the
first kill, a person is asked what is to become of it, and answers with Run again or Continue.
"""

import json
import multiprocessing
import signal
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_kernel.testing import FakeOpenAI
from agent_kernel.testing.wire.reply import Reply
from agent_kernel.tools import outcome_texts
from tests.faults import checks, life
from tests.faults.figures import Figures
from tests.faults.planned_model import PlannedModel
from tests.faults.rounds import MOMENTS, Round

ENDS_WITHIN = 60.0
Calls = dict[str, dict[str, Any]]
"""The calls of a log, by id, as `checks.read_log` has them."""


@dataclass
class RuntimeRound(Round):
    """What is known over all lives, of what was shown and acknowledged."""

    directory: Path
    kernel_stays: bool
    frames: dict[int, str] = field(default_factory=dict)
    approved: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)
    said: list[str] = field(default_factory=list)
    view: dict[str, Any] | None = None
    """The first snapshot of the last life."""
    told: list[list[dict[str, Any]]] = field(default_factory=list)
    """The messages of each request to the model."""

    @property
    def log_path(self) -> Path:
        return self.directory / "log.sqlite"

    @property
    def watched(self) -> bool:
        return self.number % 2 == 1

    def read_log(self) -> Calls:
        return checks.read_log(self.log_path) if self.log_path.exists() else {}

    def play(self, environment: dict[str, str]) -> None:
        """One run, its kills and its end. Where the kernel does not stay, it is gone in the last life."""
        before: Calls = {}
        for number in range(self.random.randint(1, 3)):
            first = number == 0 and self.watched
            moment = "while a tool runs" if first else self.random.choice(list(MOMENTS))
            killed = self.live(environment, number, moment)
            self.check_recovery(before)
            if not killed:
                before = {}
                break
            before = self.read_log()
            self.check_after_kill(before)
        self.live(environment, 9, None)
        self.check_recovery(before, kernel_gone=not self.kernel_stays)
        self.check_end()

    def live(self, environment: dict[str, str], number: int, moment: str | None) -> bool:
        """Whether it was killed. A client that was there before asks for what follows the last event it saw, or an
        earlier one."""
        seen = max(self.frames, default=0)
        known = self.directory / f"known-{number}"
        setup = life.Setup(
            self.log_path,
            self.counter,
            known,
            environment,
            run_id=f"run_{self.name}_{number}",
            seed=self.random.randrange(2**30),
            after_seq=seen if self.random.random() < 0.5 else self.random.randint(0, seen),
            moment=moment,
            kernel_there=self.kernel_stays or moment is not None,
            watched=self.watched,
            call_is_long=self.watched and number == 0,
        )
        process = multiprocessing.get_context("forkserver").Process(target=life.main, args=(setup,), daemon=True)
        process.start()
        process.join(ENDS_WITHIN)
        if process.exitcode is None:
            self.fault("buttons_dead", "a run did not end")
            process.kill()
            process.join()
        elif process.exitcode not in (0, -signal.SIGKILL):
            self.fault("runs_left_open", f"the runtime failed with {process.exitcode}")
        self.figures.kills += process.exitcode == -signal.SIGKILL
        self.view = None
        self.learn(known)
        return process.exitcode == -signal.SIGKILL

    def learn(self, known: Path) -> None:
        """What a life has made known; its last line may be cut off."""
        for line in known.read_text("utf-8").splitlines() if known.exists() else ():
            with suppress(ValueError):
                for kind, what in json.loads(line).items():
                    self._learn(kind, what)

    def _learn(self, kind: str, what: Any) -> None:
        match kind:
            case "view":
                self.view = what
            case "frame":
                seq = json.loads(what)["seq"]
                if self.frames.setdefault(seq, what) != what:
                    self.fault("events_missing", f"event {seq} is another after the restart")
            case "approved":
                self.approved.add(what)
            case "answered":
                self.answered.add(what)
                self.figures.outcomes_answered += 1
            case "said":
                self.said.append(what)
            case _:
                self.fault("buttons_dead", what)

    def check_after_kill(self, calls: Calls) -> None:
        """The log of a dead process: what was acknowledged is in it."""
        for call_id, call in calls.items():
            if call["approval_id"] in self.approved and call["state"] == "awaiting_approval":
                self.fault("approvals_lost", f"{call_id} was decided, and waits again")
            if call_id in self.answered and call["unknown_answer"] is None:
                self.fault("approvals_lost", f"{call_id} was answered for, and is asked about again")

    def check_recovery(self, before: Calls, *, kernel_gone: bool = False) -> None:
        """The first snapshot after a restart, which a kill may have prevented, against the log of the dead process."""
        if self.view is None:
            return
        after = {call["tool_call_id"]: call["state"] for call in self.view["tool_calls"]}
        for call_id, call in before.items():
            if call["run_status"] in checks.ENDED:
                continue
            waiting = "cancelled" if kernel_gone else "awaiting_approval"
            expected = {"awaiting_approval": waiting, "executing": "unknown"}.get(call["state"])
            if expected not in (None, after[call_id]):
                name = "approvals_lost" if call["state"] == "awaiting_approval" else "dishonest_states"
                self.fault(name, f"{call_id} was {call['state']} and is {after[call_id]} after the restart")

    def check_end(self) -> None:
        """All has ended: the log, the counter file, what clients show and what the model was told agree."""
        calls = self.read_log()
        for call_id, call in calls.items():
            if call["run_status"] not in checks.ENDED:
                self.fault("dishonest_states", f"{call_id} is {call['state']} in a run that is {call['run_status']}")
        self.check_calls(calls.values())
        self.check_frames(checks.read_frames(self.log_path, life.CONVERSATION))
        for note in checks.gaps(sorted(self.frames), 0):
            self.fault("events_missing", note)
        for messages in self.told:
            self.check_request(messages)
        last = [str(message.get("content")) for message in self.told[-1]] if self.told else []
        for text in self.said:
            if not any(text in content for content in last):
                self.fault("messages_lost", f"the model never heard {text!r}")

    def hear(self, messages: list[dict[str, Any]]) -> None:
        """A request to the model, as it comes. It hears of an unknown outcome once somebody has looked, which is an
        answer for the call or a message."""
        self.told.append(messages)
        if not self.watched:
            return
        for message in messages:
            if message["role"] == "tool" and str(message["content"]).startswith(outcome_texts.UNKNOWN_PREFIX):
                call = self.read_log()[message["tool_call_id"]]
                if call["unknown_answer"] is None and call["run_status"] not in checks.ENDED:
                    self.fault("dishonest_states", f"the model hears of {call['tool_call_id']}, and nobody has looked")


def run_kernel_gone(rounds: int, seed: int, first: int = 0) -> Figures:
    """Rounds in which the kernel does not outlive the runtime: runs end honestly, and the next prompt finds no
    orphan."""
    return run(rounds, seed, first, kernel_stays=False)


def run(rounds: int, seed: int, first: int = 0, *, kernel_stays: bool = True) -> Figures:
    """Play that many rounds. The seed and a round's number say what happens in it, to the limits of real time."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(["tests.faults.preload", "tests.faults.life"])
    figures, planned = Figures(), PlannedModel()
    playing: list[RuntimeRound] = []

    def answer(body: dict[str, Any]) -> Reply:
        playing[-1].hear(body["messages"])
        return planned(body)

    with (
        tempfile.TemporaryDirectory(prefix="agent-kernel-faults-") as directory,
        FakeOpenAI([answer], repeat=True) as server,
    ):
        for number in range(first, first + rounds):
            place = Path(directory) / f"{number}"
            place.mkdir()
            round_ = RuntimeRound(seed, number, place / "counter", place, kernel_stays)
            playing.append(round_)
            round_.play(server.environment())
            figures.add(round_.figures)
    return figures
