"""Rounds on a runtime process: a run with approvals, killed at a random moment up to three times, then let end.

The kernel of these rounds outlives the runtime, so its runs go on: what waited has to wait again, what was approved has
to start once, what was executing has to be unknown. Every second round is watched by a page: there a call runs at the
first kill, a person is asked what is to become of it, and answers with Run again or Continue.
"""

import multiprocessing
import random
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

from agent_kernel.testing import FakeOpenAI
from tests.faults import checks, life
from tests.faults.figures import Figures
from tests.faults.planned_model import PlannedModel
from tests.faults.runtime_checks import check_after_kill, check_end, check_recovery
from tests.faults.runtime_driver import MOMENTS, Calls, Driver, Round

LONG_CALL = 0.1
"""Seconds: longer than from the news that a call runs to the kill."""


def play_round(round_: Round, *, kernel_stays: bool) -> Figures:
    """One run, its kills and its end. Where the kernel does not stay, it is gone in the last life."""
    round_.figures.rounds = 1
    setup, chance = round_.setup, round_.random
    before: Calls = {}
    for number in range(chance.randint(1, 3)):
        first = number == 0
        moment = "while a tool runs" if first and round_.watched else chance.choice(list(MOMENTS))
        if not _next_life(round_, number, moment, before, call_seconds=LONG_CALL if first and round_.watched else 0.01):
            before = {}
            break
        before = checks.read_log(setup.log_path) if setup.log_path.exists() else {}
        check_after_kill(round_, before)
    round_.setup = replace(round_.setup, kernel_there=kernel_stays)
    _next_life(round_, 9, None, before)
    check_end(round_)
    return round_.figures


def _next_life(round_: Round, number: int, moment: str | None, before: Calls, *, call_seconds: float = 0.01) -> bool:
    """Whether it was killed. A client that was there before asks for what follows the last event it saw, or an earlier
    one."""
    seen = max(round_.frames, default=0)
    after = seen if round_.random.random() < 0.5 else round_.random.randint(0, seen)
    seed = round_.setup.seed + number
    round_.setup = replace(round_.setup, seed=seed, after_seq=after, call_seconds=call_seconds)
    return Driver(round_, moment, partial(check_recovery, round_, before), first=number == 0).play()


def _round(name: str, number: int, seed: int, directory: Path, server: FakeOpenAI) -> Round:
    directory.mkdir()
    chance, watched = random.Random(seed), number % 2 == 1
    setup = life.Setup(directory / "log.sqlite", directory / "counter", server.environment(), seed, watched=watched)
    return Round(name, chance, setup, lambda: list(server.requests), watched)


def run_kernel_gone(rounds: int, seed: int, first: int = 0) -> Figures:
    """Rounds in which the kernel does not outlive the runtime: runs end honestly, and the next prompt finds no
    orphan."""
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
            place = Path(directory) / name
            round_ = _round(name, number, seed * 100_000 + number * 10, place, server)
            figures.add(play_round(round_, kernel_stays=kernel_stays))
            server.requests.clear()
    return figures
