"""The parent's side of a round on a runtime process: what is known of it over all its lives, and in one life what a
person does, and the kill."""

import itertools
import json
import multiprocessing
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agent_kernel.tools import outcome_texts
from tests.faults import checks, life
from tests.faults.figures import Figures

KILLED_AT_LATEST = 3.0
ENDS_WITHIN = 60.0
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


class Driver:
    def __init__(
        self, round_: Round, moment: str | None, on_ready: Callable[[dict[str, Any]], None], *, first: bool = False
    ) -> None:
        """`on_ready` is given the first snapshot. In the `first` life of a watched round a call is running at the
        kill; in one that is killed while an approval is pending, nobody decides."""
        self.round = round_
        self.moment = moment
        self.open_runs: set[str] = set()
        self._on_ready = on_ready
        self._asked_before = len(round_.requests())
        """How many requests to the model came from earlier processes."""
        self._live_after = 0
        self._numbers = itertools.count()
        self._sent: dict[int, tuple[str, str]] = {}
        self._later: list[tuple[float, dict[str, Any]]] = []
        """Calls with an unknown outcome, and when a person answers for each."""
        self._left = 1 if first and round_.watched else round_.random.randrange(1, 4)
        """How many events of the moment's kind go by before the kill."""
        context = multiprocessing.get_context("forkserver")
        self._pipe, child = context.Pipe()
        self.process = context.Process(target=life.main, args=(child, round_.setup), daemon=True)
        self.process.start()
        child.close()
        # From here on: the first process waits for what all of them have in common to be imported.
        self.kill_at = time.monotonic() + KILLED_AT_LATEST if moment else None
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
            while self._later and self._later[0][0] <= now:
                self._answer_unknown(self._later.pop(0)[1])
            until = min(at for at in (deadline, self.kill_at, *(at for at, _ in self._later[:1])) if at is not None)
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
        """Read what the process had sent before its end: a client may have shown it."""
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
                for _, call in self._later:
                    self._check_unheard(call)
                return bool(self.open_runs)
        return True

    def _begin(self, view: dict[str, Any]) -> None:
        self._on_ready(view)
        self._live_after = view["last_seq"]
        self.open_runs = {run["run_id"] for run in view["runs"] if run["status"] not in checks.ENDED}
        for call in view["tool_calls"]:
            if call["state"] == "awaiting_approval":
                self._decide(call["approval_id"], call["tool_call_id"], call["digest"])
            elif self._is_held(call):
                at = time.monotonic() + self.round.random.choice([0, 0.01, 0.1])
                self._later.append((at, call))
                self._later.sort(key=lambda one: one[0])
        if not self.open_runs:
            self._start()  # the first, or it was killed after its end: there is nothing left to see but another run

    def _is_held(self, call: dict[str, Any]) -> bool:
        unanswered = call["state"] == "unknown" and call["unknown_answer"] is None
        return self.round.watched and unanswered and call["run_id"] in self.open_runs

    def _start(self) -> None:
        chance = self.round.random
        plan = {"steps": [chance.randint(1, 3) for _ in range(chance.randint(1, 3))], "tool": "append"}
        run_id = f"run_{self.round.name}_{len(self.round.prompts)}"
        prompt = f"Go on {run_id}: {json.dumps({**plan, 'pause': chance.choice([0, 0.001, 0.004])})}"
        policy = "allow" if self.round.watched and chance.random() < 0.3 else None
        self.round.prompts.append(prompt)
        self.open_runs.add(run_id)
        self._pipe.send(("start", run_id, prompt, policy))

    def _show(self, frame: dict[str, Any]) -> None:
        kind = frame["type"]
        if frame["seq"] <= self._live_after:
            return  # of the past: the snapshot says what is left of it
        if kind == "run" and frame["run"]["status"] not in checks.ENDED:
            self.open_runs.add(frame["run"]["run_id"])
        if self.moment and kind in MOMENTS[self.moment]:
            self._left -= 1
            if self._left == 0:
                self._kill_within(self.round.random.choice([0, 0, 0.001, 0.003, 0.01]))
        if kind == "approval_request":
            self._decide(frame["approval_id"], frame["tool_call_id"], frame["digest"])
        elif kind == "tool_start" and self.round.random.random() < 0.1:
            self._send("message", f"By the way {next(self._numbers)}.")

    def _kill_within(self, seconds: float) -> None:
        self.kill_at = time.monotonic() + seconds

    def _decide(self, approval_id: str, tool_call_id: str, digest: str) -> None:
        chance = self.round.random.random()
        if self.moment == "while an approval is pending":
            return
        if chance < 0.1:
            self._send("cancel_call", tool_call_id)
            return
        decision: dict[str, Any] = {"approved": chance < 0.85, "digest": digest}
        if 0.8 < chance < 0.85:
            decision = {"approved": True, "edited_input": {"mark": f"mark9{int(approval_id[-8:], 16)}"}}
        self._send("decide", approval_id, decision)
        if self.moment == "as a decision is sent":
            self._kill_within(self.round.random.uniform(0.0, 0.006))

    def _answer_unknown(self, call: dict[str, Any]) -> None:
        """Press Run again or Continue."""
        tool_call_id = call["tool_call_id"]
        self._check_unheard(call)
        verb = self.round.random.choice(["tool_retry", "tool_continue"])
        self._send(verb, tool_call_id, f"Try this call again: {call['tool_name']} with {call['tool_input']}")
        if self.moment == "as a decision is sent":
            self._kill_within(self.round.random.uniform(0.0, 0.006))

    def _check_unheard(self, call: dict[str, Any]) -> None:
        """The model hears of an unknown outcome once somebody has looked; who sends a message has."""
        if self.round.was_told(call["tool_call_id"], self._asked_before) and not self._has_sent("message"):
            self.round.fault("dishonest_states", f"the model was told of {call['tool_call_id']}, and nobody had looked")

    def _has_sent(self, verb: str) -> bool:
        return any(sent[0] == verb for sent in self._sent.values())

    def _send(self, verb: str, key: str, *rest: Any) -> None:
        number = next(self._numbers)
        self._sent[number] = (verb, key, *rest)
        self._pipe.send((verb, number, key, *rest))

    def _replied(self, number: int, error: str | None) -> None:
        rest: list[Any]
        verb, key, *rest = self._sent[number]
        if error is None:
            self._done(verb, key, *rest)
        elif verb == "decide" and "Already decided: superseded" in error:
            pass  # a message of this driver superseded the call in the same moment: then the decision came too late
        elif verb in ("tool_retry", "tool_continue") and self._has_sent("message") and "has answered" in error:
            pass  # a message is a look too
        elif verb not in ("message", "cancel_call"):
            self.round.fault("buttons_dead", f"{verb} of {key} was offered, and met: {error}")

    def _done(self, verb: str, key: str, *rest: Any) -> None:
        match verb:
            case "message":
                self.round.said.append(key)
            case "decide":
                self.round.approved.add(key)
            case "tool_retry" | "tool_continue":
                self.round.answered.add(key)
                self.round.figures.outcomes_answered += 1
                if verb == "tool_retry":
                    self.round.said.append(rest[0])

    def _remember(self, text: str) -> dict[str, Any]:
        frame: dict[str, Any] = json.loads(text)
        known = self.round.frames.setdefault(frame["seq"], text)
        if known != text:
            self.round.fault("events_missing", f"event {frame['seq']} is another after the restart")
        return frame
