"""A hundred runs at once in one process, each with a client: how soon an approved call is entered, and steps a core.

In the first part people take up to a second to decide, and answers stream as a model's do. In the second nobody waits
for anything, so that the processor is what limits.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.frame import Figure, Floor, Goal, ModelServer, Report, Worker, median, take_turns, workers

RUNS = 100
PROMPTS = 3
"""The prompts of each person in a round."""
ALONE = 20
"""The prompts of the one run that the others are compared with."""
THINK = 1.0
STREAMED = "marked:40:20000"
BURST = "marked:40:0"
RAW = "raw aiohttp, log"
"""The floor."""
Found = Mapping[str, Sequence[Mapping[str, Any]]]


def run(rounds: int, runs: int = RUNS) -> Report:
    with ModelServer() as server:
        with workers(("ours", RAW, "create_agent"), server.url) as contenders:
            people = take_turns(contenders, rounds, lambda worker: _people(worker, runs))
        with workers(("ours", RAW, "create_agent"), server.url) as contenders:
            burst = take_turns(contenders, rounds, lambda worker: _burst(worker, runs))
    report = Report(raw={"people": people, "burst": burst})
    many = {name: _sorted(found, "many", "entered") for name, found in people.items()}
    alone = {name: _sorted(found, "alone", "entered") for name, found in people.items()}
    others = [name for name in people if name != "ours"]
    report.figures += [
        Figure(
            f"{runs} runs at once, approve -> tool entered, p99",
            _p99(many["ours"]),
            "ms",
            beside={
                "p50": median(many["ours"]),
                "p50 of one run": median(alone["ours"]),
                "p99 of one run": _p99(alone["ours"]),
                **{name: _p99(many[name]) for name in others},
                **{f"{name}: p50 of one run": median(alone[name]) for name in others},
            },
        ),
        Figure(
            "... by the p50 of one run",
            _p99(many["ours"]) / median(alone["ours"]),
            "x",
            Goal(15, "15 times that"),
            beside={name: _p99(many[name]) / median(alone[name]) for name in others},
            floor=Floor(_p99(many[RAW]) / median(alone[RAW]), RAW),
        ),
        Figure(
            "... how late a timer of the event loop is, p99",
            _p99(_sorted(people["ours"], "many", "late")),
            "ms",
            beside={name: _p99(_sorted(people[name], "many", "late")) for name in others},
        ),
    ]
    report.figures += _per_core(burst, runs)
    return report


def _people(worker: Worker, runs: int) -> dict[str, Any]:
    alone = worker("crowd", runs=1, prompts=ALONE, model="marked:40:1000", think=0.1)
    return {"alone": alone, "many": worker("crowd", runs=runs, prompts=PROMPTS, model=STREAMED, think=THINK)}


def _burst(worker: Worker, runs: int) -> dict[str, Any]:
    return worker("crowd", runs=runs, prompts=PROMPTS, model=BURST, think=0)


def _sorted(results: Sequence[Mapping[str, Any]], part: str, what: str) -> list[float]:
    """The milliseconds of a part in all rounds, the shortest first."""
    return sorted(one for result in results for one in result[part][what])


def _per_core(burst: Found, runs: int) -> list[Figure]:
    """Steps in a second of processor time: a prompt, its call after an approval, and the answer."""
    rates = {name: median([one["calls"] / one["cpu"] for one in found]) for name, found in burst.items()}
    waits = {f"{name}: approve -> entered p99 ms": _p99(sorted(_entered(found))) for name, found in burst.items()}
    ours = rates.pop("ours")
    figures = [Figure(f"{runs} runs at once as fast as they go, steps per core", ours, "1/s", beside=rates | waits)]
    if "create_agent" in rates:
        theirs = rates["create_agent"]
        goal = Goal(4, "4 times create_agent's", "at least")
        figures.append(Figure("... by create_agent's", ours / theirs, "x", goal, floor=Floor(rates[RAW] / theirs, RAW)))
    return figures


def _entered(found: Sequence[Mapping[str, Any]]) -> list[float]:
    return [one for result in found for one in result["entered"]]


def _p99(ordered: Sequence[float]) -> float:
    return ordered[len(ordered) * 99 // 100]
