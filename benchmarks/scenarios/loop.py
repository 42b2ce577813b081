"""The loop without Jupyter: tokens, steps, decisions, long conversations and many runs, beside other loops."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.contenders.base import history
from benchmarks.frame import (
    Figure,
    Goal,
    ModelServer,
    Report,
    Worker,
    median,
    medians,
    ratio,
    take_turns,
    workers,
)

OURS, RAW, PEER = "ours", "raw aiohttp", "create_agent"
BURST, PACED, MICROS = 5_000, 1_500, 2_000
CHARACTERS = 5
"""The length of the fake model's tokens."""
STEPS = 20
LONG_HISTORY = 800
SAMPLES = 10
"""Approvals of each length in each round."""
EARLY, LATE = 50, 1_000
COMPARED = 60
"""The number of turns of the long conversation after the late mark, and of a new one around the early one, whose
medians are compared. With 20 the quotient went from 0.9 to 1.8 on one machine."""
AT_A_TIME = 10
"""Turns of one contender before the next one has its own: most are not the first after a pause, which costs more."""
RUNS = 100
PROMPTS, PROMPTS_ALONE = 3, 20
"""The prompts of each person in a round, and of the one person that the others are compared with."""
Results = Sequence[Mapping[str, Any]]


def tokens(rounds: int) -> Report:
    """Token throughput: a burst of 5,000 tokens, and the processor time of a token that comes every 2 ms."""
    with ModelServer() as server, workers((OURS, RAW, PEER), server.url) as contenders:
        burst = take_turns(contenders, rounds, lambda worker: worker("answer", model=f"text:{BURST}"))
        paced = take_turns(
            contenders, max(1, rounds // 2), lambda worker: worker("answer", model=f"paced:{PACED}:{MICROS}")
        )
    for found, count in ((burst, BURST), (paced, PACED)):
        for name, results in found.items():
            assert all(result["characters"] == count * CHARACTERS for result in results), f"{name} lost tokens"
    speed = {name: BURST / seconds for name, seconds in medians(burst, "wall").items()}
    micros = medians(paced, "cpu", 1e6 / PACED)
    report = Report(raw={"burst": burst, "paced": paced})
    report.figures.append(Figure("tokens per second, burst of 5,000", speed.pop(OURS), "1/s", beside=speed))
    if PEER in burst:
        times = ratio(burst, PEER, OURS, "wall")
        report.figures.append(Figure("... by create_agent's", times, "x", Goal(5, "5 times", "at least")))
    report.figures += [
        Figure("CPU per paced token", micros.pop(OURS), "µs", beside=micros),
        Figure("... by raw aiohttp's", ratio(paced, OURS, RAW, "cpu"), "x", Goal(4, "4 times")),
    ]
    return report


def steps(rounds: int) -> Report:
    """Twenty tool steps in a row, everything on disk: what each adds to the bare requests."""
    with ModelServer() as server, workers((RAW, OURS, PEER), server.url) as contenders:
        found = take_turns(contenders, rounds, lambda worker: worker("steps", model=f"steps:{STEPS}"))
    for name, results in found.items():
        assert all(result["calls"] == STEPS for result in results), f"{name} did not run every call"
    walls = medians(found, "wall")
    floor = walls.pop(RAW)
    added = {name: (wall - floor) * 1e3 / STEPS for name, wall in walls.items()}
    report = Report(raw={"steps": found})
    report.figures.append(Figure("added time per tool step, log on disk", added.pop(OURS), "ms", beside=added))
    if PEER in found:
        shares = [
            (mine["wall"] - base["wall"]) / (theirs["wall"] - base["wall"])
            for mine, theirs, base in zip(found[OURS], found[PEER], found[RAW], strict=True)
        ]
        goal = Goal(0.5, "half of create_agent's with its state on SQLite")
        report.figures.append(Figure("... by create_agent's", median(shares), "x", goal))
    return report


def approvals(rounds: int) -> Report:
    """From a decision to the first line of the tool, in a new conversation and after 800 messages."""
    with ModelServer() as server, workers((OURS, PEER), server.url) as contenders:
        found = take_turns(
            contenders, rounds, lambda worker: worker("approvals", count=SAMPLES, lengths=[0, LONG_HISTORY])
        )
    short, long = (
        {name: median(_entered(results, str(messages))) for name, results in found.items()}
        for messages in (0, LONG_HISTORY)
    )
    ours, late = short.pop(OURS), long.pop(OURS)
    report = Report(raw=dict(found))
    report.figures.append(Figure("approve -> tool entered, log on disk", ours, "ms", beside=short))
    if PEER in short:
        goal = Goal(0.6, "0.6 times create_agent's with its state on SQLite")
        report.figures.append(Figure("... by create_agent's", ours / short[PEER], "x", goal))
    report.figures += [
        Figure("approve -> tool entered, after 800 messages", late, "ms", beside=long),
        Figure("... by that of a new conversation", late / ours, "x", Goal(1.5, "1.5 times a new conversation's")),
    ]
    return report


def _entered(results: Results, part: str) -> list[float]:
    """The milliseconds of a part in all rounds."""
    return [one for result in results for one in result["entered"][part]]


def turns(rounds: int) -> Report:  # noqa: ARG001 (one conversation is one round)
    """One conversation of 1,000 turns: milliseconds of a turn as it grows, and bytes on disk.

    What a turn costs beyond its request is the difference of two contenders' times, and its growth the quotient of two
    such differences of a few milliseconds: it says nothing where they are of different moments or of few turns. So
    turns of the long conversation from the 1,000th on are made in turns with those around the 50th of a new one.
    """
    both = (OURS, RAW)
    early = EARLY - COMPARED // 2
    with ModelServer() as server, workers(both, server.url) as old, workers(both, server.url) as young:
        disk = {worker.name: worker("turns", first=1, last=LATE)["bytes"] for worker in old}
        for worker in young:
            worker("turns", first=1, last=early)
        took: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in both}
        for done in range(0, COMPARED, AT_A_TIME):
            for place, (contenders, before) in enumerate(((old, LATE), (young, early))):
                for worker in contenders:
                    first = before + done + 1
                    took[worker.name][place].extend(worker("turns", first=first, last=first + AT_A_TIME - 1)["ms"])
    late_ms, early_ms = (
        median([own - raw for own, raw in zip(took[OURS][place], took[RAW][place], strict=True)]) for place in (0, 1)
    )
    raw_bytes = len(b"".join(json.dumps(message, separators=(",", ":")).encode() for message in history(4 * LATE)))
    report = Report(raw={"ms": took, "bytes": disk, "raw bytes": raw_bytes})
    report.figures += [
        Figure("a turn at 1,000 turns", median(took[OURS][0]), "ms", beside={RAW: median(took[RAW][0])}),
        Figure(
            "... beyond the request: 1,000 by 50",
            late_ms / early_ms,
            "x",
            Goal(1.5, "1.5 times the 50th, both beyond their request"),
            {f"ms from {LATE} on": late_ms, f"around {EARLY}": early_ms},
        ),
        Figure("disk after 1,000 turns", disk[OURS] / 1e6, "MB", beside={"raw bytes": raw_bytes / 1e6}),
        Figure("... by the raw bytes of its messages", disk[OURS] / raw_bytes, "x", Goal(6, "6 times")),
    ]
    return report


def many_runs(rounds: int, runs: int = RUNS) -> Report:
    """A hundred runs at once in one process, each with a client: how soon an approved call is entered.

    People take up to a second to decide, and answers stream as a model's do.
    """
    with ModelServer() as server, workers((OURS,), server.url) as contenders:
        found = take_turns(contenders, rounds, lambda worker: _people(worker, runs))
    many, alone = (sorted(_entered(found[OURS], part)) for part in ("many", "alone"))
    beside = {"p50": median(many), "p50 of one run": median(alone)}
    share = _p99(many) / median(alone)
    report = Report(raw=dict(found))
    report.figures += [
        Figure(f"{runs} runs at once, approve -> tool entered, p99", _p99(many), "ms", beside=beside),
        Figure("... by the p50 of one run", share, "x", Goal(15, "15 times that")),
    ]
    return report


def _people(worker: Worker, runs: int) -> dict[str, Any]:
    alone = worker("crowd", runs=1, prompts=PROMPTS_ALONE, model="marked:40:1000", think=0.1)
    many = worker("crowd", runs=runs, prompts=PROMPTS, model="marked:40:20000", think=1.0)
    return {"entered": {"alone": alone["entered"], "many": many["entered"]}}


def _p99(ordered: Sequence[float]) -> float:
    return ordered[len(ordered) * 99 // 100]
