"""Rounds on a brain process: a run with approvals, killed at a random moment up to three times, then let end.

The kernel of these rounds outlives the brain, so its runs go on: what waited has to wait again, what was approved has
to start once, what was executing has to be unknown.
"""

import itertools
import json
import multiprocessing
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agent_kernel.testing import FakeOpenAI
from tests.faults import checks, life
from tests.faults.figures import Figures
from tests.faults.planned_model import PlannedModel, mark_of

MOMENTS: dict[str, tuple[str, ...]] = {
    "while the model streams": ("token", "tool_state"),
    "while an approval is pending": ("approval_request",),
    "between approval and start": ("approval_response",),
    "while a tool runs": ("tool_start", "tool_output"),
    "between outcome and continuation": ("tool_complete",),
    "as a decision is sent": (),
    "at any time": (),
}
KILLED_AT_LATEST = 3.0
ENDS_WITHIN = 25.0


@dataclass
class Round:
    """What the driver knows over all lives of one round."""

    name: str
    random: random.Random
    setup: life.Setup
    frames: dict[int, str] = field(default_factory=dict)
    approved: set[str] = field(default_factory=set)
    """Approvals of which the brain said that they are decided."""
    asked: set[str] = field(default_factory=set)
    prompts: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    """Messages that the brain has taken."""
    figures: Figures = field(default_factory=Figures)

    def fault(self, name: str, note: str) -> None:
        self.figures.fault(name, f"{note} [{self.name}]")


class Driver:
    """The parent's side of one life."""

    def __init__(self, round_: Round, moment: str | None, *, hold: bool) -> None:
        self.round = round_
        self.moment = moment
        self.hold = hold
        """Leave approvals pending."""
        self.kill_at = time.monotonic() + KILLED_AT_LATEST if moment else None
        self.open_runs: set[str] = set()
        self._live_after = 0
        self._numbers = itertools.count()
        self._sent: dict[int, tuple[str, str]] = {}
        self._left = round_.random.randrange(1, 4)
        """How many events of the moment's kind go by before the kill."""
        context = multiprocessing.get_context("forkserver")
        self._pipe, child = context.Pipe()
        self.process = context.Process(target=life.main, args=(child, round_.setup), daemon=True)
        self.process.start()
        child.close()
        if moment == "at any time":
            self.kill_at = time.monotonic() + round_.random.uniform(0.0, 0.25)

    def play(self) -> bool:
        """Live until the kill or until every run has ended. True if it was killed."""
        deadline = time.monotonic() + ENDS_WITHIN
        while True:
            now = time.monotonic()
            if self.kill_at is not None and now >= self.kill_at:
                return self._kill()
            if now > deadline:
                self.round.fault("buttons_dead", "a run did not end")
                return self._kill()
            until = deadline if self.kill_at is None else min(deadline, self.kill_at)
            if not self._pipe.poll(max(0.0, until - now)):
                continue
            if not self._take(*self._pipe.recv()):
                self._pipe.send(("quit",))
                self._drain()
                return False

    def _kill(self) -> bool:
        self.process.kill()
        self.round.figures.kills += 1
        self._drain()
        return True

    def _drain(self) -> None:
        """Read what the process had sent before its end: a face may have shown it."""
        try:
            while True:
                kind, *rest = self._pipe.recv()
                if kind == "frame":
                    self._remember(rest[0])
                elif kind == "reply":
                    self._replied(*rest)
        except (EOFError, ConnectionResetError):
            pass
        self.process.join(5)
        self._pipe.close()

    def _take(self, kind: str, *rest: Any) -> bool:
        """False when every run has ended."""
        match kind:
            case "ready":
                self._begin(rest[0])
            case "frame":
                self._show(self._remember(rest[0]))
            case "reply":
                self._replied(*rest)
            case "ended":
                self.open_runs.discard(rest[0])
                return bool(self.open_runs)
        return True

    def _begin(self, view: dict[str, Any]) -> None:
        self._live_after = view["last_seq"]
        self.open_runs = {run["run_id"] for run in view["runs"] if run["status"] not in checks.ENDED}
        for call in view["tool_calls"]:
            if call["state"] == "awaiting_approval":
                self._answer(call["approval_id"], call["tool_call_id"], call["digest"])
        if not view["runs"]:
            self._start()
        elif not self.open_runs:
            self._start()  # it was killed after its end: there is nothing left to see but another run

    def _start(self) -> None:
        chance = self.round.random
        plan = {"steps": [chance.randint(1, 3) for _ in range(chance.randint(1, 3))], "tool": "append"}
        run_id = f"run_{self.round.name}_{len(self.round.prompts)}"
        prompt = f"Go on {run_id}: {json.dumps({**plan, 'pause': chance.choice([0, 0.001, 0.004])})}"
        self.round.prompts.append(prompt)
        self.open_runs.add(run_id)
        self._pipe.send(("start", run_id, prompt))

    def _show(self, frame: dict[str, Any]) -> None:
        kind = frame["type"]
        if frame["seq"] <= self._live_after:
            return  # of the past: the snapshot says what is left of it
        if kind == "run" and frame["run"]["status"] not in checks.ENDED:
            self.open_runs.add(frame["run"]["run_id"])
        if self.moment and kind in MOMENTS[self.moment]:
            self._left -= 1
            if self._left == 0:
                self.kill_at = time.monotonic() + self.round.random.choice([0, 0, 0.001, 0.003, 0.01])
        if kind == "approval_request":
            self._answer(frame["approval_id"], frame["tool_call_id"], frame["digest"])
        elif kind == "tool_start" and self.round.random.random() < 0.1:
            self._send("message", f"By the way {next(self._numbers)}.")

    def _answer(self, approval_id: str, tool_call_id: str, digest: str) -> None:
        chance = self.round.random.random()
        if self.hold:
            return
        if chance < 0.1:
            self._send("cancel_call", tool_call_id)
            return
        decision: dict[str, Any] = {"approved": chance < 0.85, "digest": digest}
        if 0.8 < chance < 0.85:
            decision = {"approved": True, "edited_input": {"mark": f"mark9{int(approval_id[-8:], 16)}"}}
        self._send("decide", approval_id, decision)
        if self.moment == "as a decision is sent":
            self.kill_at = time.monotonic() + self.round.random.uniform(0.0, 0.006)

    def _send(self, verb: str, key: str, *rest: Any) -> None:
        number = next(self._numbers)
        self._sent[number] = (verb, key)
        self._pipe.send((verb, number, key, *rest))

    def _replied(self, number: int, error: str | None) -> None:
        verb, key = self._sent[number]
        if error is None and verb == "message":
            self.round.said.append(key)
        elif error is None and verb == "decide":
            self.round.approved.add(key)
        elif verb == "decide" and "Already decided: superseded" not in (error or ""):
            # (A message of this driver may supersede a call in the same moment: then the decision came too late.)
            self.round.fault("buttons_dead", f"{key} was waiting, and its decision met: {error}")

    def _remember(self, text: str) -> dict[str, Any]:
        frame: dict[str, Any] = json.loads(text)
        known = self.round.frames.setdefault(frame["seq"], text)
        if known != text:
            self.round.fault("events_missing", f"event {frame['seq']} is another after the restart")
        return frame


def check_after_kill(round_: Round, before: dict[str, dict[str, Any]]) -> None:
    """The log of a dead process: what was acknowledged is in it."""
    for call in before.values():
        if call["approval_id"] in round_.approved and call["state"] == "awaiting_approval":
            round_.fault("approvals_lost", f"{call['tool_call_id']} was decided, and waits again")


def check_recovery(round_: Round, before: dict[str, dict[str, Any]], view: dict[str, Any]) -> None:
    """The first snapshot after a restart against the log of the dead process."""
    after = {call["tool_call_id"]: call["state"] for call in view["tool_calls"]}
    for call_id, call in before.items():
        if call["run_status"] in checks.ENDED:
            continue
        waiting = "awaiting_approval" if round_.setup.kernel_there else "cancelled"
        expected = {"awaiting_approval": waiting, "executing": "unknown"}.get(call["state"])
        if expected not in (None, after[call_id]):
            name = "approvals_lost" if call["state"] == "awaiting_approval" else "dishonest_states"
            round_.fault(name, f"{call_id} was {call['state']} and is {after[call_id]} after the restart")


def check_end(round_: Round, requests: list[Any]) -> None:
    """All has ended: the log, the counter file, what faces show and what the model was told agree."""
    counter = checks.counted(round_.setup.counter)
    for call_id, call in checks.read_log(round_.setup.log_path).items():
        times = counter.pop(mark_of(call["tool_input"]), 0) if call["state"] != "invalid" else 0
        _check_call(round_, call_id, call, times)
    for mark in counter:
        round_.fault("ran_undecided", f"{mark} was left by no call of the log")
    frames = checks.read_frames(round_.setup.log_path, life.CONVERSATION)
    for card, state in checks.cards(frames).items():
        if state not in checks.FINAL:
            round_.fault("buttons_dead", f"the card {card} is left {state}")
    for note in checks.gaps((frame["seq"] for frame in frames), 0) + checks.gaps(sorted(round_.frames), 0):
        round_.fault("events_missing", note)
    _check_told(round_, requests)


def _check_call(round_: Round, call_id: str, call: dict[str, Any], times: int) -> None:
    if call["state"] not in checks.FINAL or call["run_status"] not in checks.ENDED:
        round_.fault("dishonest_states", f"{call_id} is {call['state']} in a run that is {call['run_status']}")
    if times > 1:
        round_.fault("calls_run_twice", f"{call_id} ran {times} times")
    if times and (call["state"] in checks.DID_NOT_RUN or call["by"] is None):
        round_.fault("ran_undecided", f"{call_id} ran and is {call['state']}")
    if times == 0 and call["state"] == "success":
        round_.fault("dishonest_states", f"{call_id} is called a success and did not run")


def _check_told(round_: Round, requests: list[Any]) -> None:
    for request in requests:
        for note in checks.orphans(request.body["messages"]):
            round_.fault("orphan_tool_calls", note)
    told = json.dumps(requests[-1].body["messages"]) if requests else ""
    for text in round_.said:
        if text not in told:
            round_.fault("messages_lost", f"the model never heard {text!r}")


def play_round(name: str, seed: int, server: FakeOpenAI, directory: Path, *, kernel_stays: bool) -> Figures:
    """One run, its kills and its end. Where the kernel does not stay, it is gone in the last life."""
    chance = random.Random(seed)
    directory.mkdir()
    setup = life.Setup(directory / "log.sqlite", directory / "counter", server.environment(), seed)
    round_ = Round(name, chance, setup)
    round_.figures.rounds = 1
    before: dict[str, dict[str, Any]] = {}
    first_request = len(server.requests)
    for number in range(chance.randint(1, 3)):
        moment = chance.choice(list(MOMENTS))
        driver = _next_life(round_, number, moment, hold=moment == "while an approval is pending")
        with _checked_recovery(driver, before):
            killed = driver.play()
        if not killed:
            before = {}
            break
        before = checks.read_log(setup.log_path) if setup.log_path.exists() else {}
        check_after_kill(round_, before)
    round_.setup = replace(round_.setup, kernel_there=kernel_stays)
    driver = _next_life(round_, 9, None, hold=False)
    with _checked_recovery(driver, before):
        driver.play()
    check_end(round_, server.requests[first_request:])
    return round_.figures


def _next_life(round_: Round, number: int, moment: str | None, *, hold: bool) -> Driver:
    """A face that was there before asks for what follows the last event it saw, or an earlier one."""
    seen = max(round_.frames, default=0)
    after = seen if round_.random.random() < 0.5 else round_.random.randint(0, seen)
    round_.setup = replace(round_.setup, seed=round_.setup.seed + number, after_seq=after)
    return Driver(round_, moment, hold=hold)


@contextmanager
def _checked_recovery(driver: Driver, before: dict[str, dict[str, Any]]) -> Iterator[None]:
    begin = driver._begin

    def checked(view: dict[str, Any]) -> None:
        check_recovery(driver.round, before, view)
        begin(view)

    driver._begin = checked  # type: ignore[method-assign]
    yield


def run_kernel_gone(rounds: int, seed: int, first: int = 0) -> Figures:
    """Rounds in which the kernel does not outlive the brain: runs end honestly, and the next prompt finds no orphan."""
    return run(rounds, seed, first, kernel_stays=False)


def run(rounds: int, seed: int, first: int = 0, *, kernel_stays: bool = True) -> Figures:
    """Play that many rounds. The seed and a round's number say what happens in it, to the limits of real time."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(["tests.faults.preload", "tests.faults.life"])
    figures = Figures()
    with (
        tempfile.TemporaryDirectory(prefix="agent-kernel-faults-") as directory,
        FakeOpenAI([PlannedModel()], repeat=True) as server,
    ):
        for number in range(first, first + rounds):
            name = f"s{seed}r{number}"
            directory_of = Path(directory) / name
            figures.add(play_round(name, seed * 100_000 + number * 10, server, directory_of, kernel_stays=kernel_stays))
            server.requests.clear()
    return figures
