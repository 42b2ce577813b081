"""One conversation of 1,000 turns: milliseconds of a turn as it grows, and bytes on disk.

What a turn costs beyond its request is the difference of two contenders' times, and its growth the quotient of two such
differences of a few milliseconds: it says nothing where they are of different moments. So the last turns of the long
conversation are made in turns with those of a new one that grows to 50.
"""

import json
from collections.abc import Sequence

from benchmarks.contenders.base import history
from benchmarks.frame import Figure, Goal, ModelServer, Report, Series, Worker, median, workers

MARKS = (50, 200, 500, 1_000)
WINDOW = 20
"""The number of turns up to a mark whose median is the time at it."""
AT_A_TIME = 10
"""Turns of one contender before the next one has its own: most are not the first after a pause, which costs more."""
SHORT = {"create_agent": 50, "LangGraph + openai": 200}
"""The turns of slow peers, whose 1,000 turns would take a quarter of an hour."""
CONTENDERS = ("ours", "raw aiohttp", "raw aiohttp, log", *SHORT)


Times = dict[str, dict[int, list[float]]]
"""Milliseconds of the turns up to each mark, by contender."""


def run(rounds: int) -> Report:  # noqa: ARG001 (one conversation is one round)
    with (
        ModelServer() as server,
        workers(CONTENDERS, server.url) as contenders,
        workers(("ours", "raw aiohttp"), server.url) as young,
    ):
        took: Times = {worker.name: {} for worker in contenders}
        disk: dict[str, dict[int, int]] = {worker.name: {} for worker in contenders}
        done = 0
        for mark in MARKS[:-1]:
            able = [worker for worker in contenders if mark <= SHORT.get(worker.name, mark)]
            for worker in able:
                worker("turns", first=done + 1, last=mark - WINDOW)
            found = _in_turns([(worker, mark) for worker in able], disk)
            for worker, ms in zip(able, found, strict=True):
                took[worker.name][mark] = ms
            done = mark
        able = [worker for worker in contenders if worker.name not in SHORT]
        for worker in able:
            worker("turns", first=done + 1, last=MARKS[-1] - WINDOW)
        for worker in young:
            worker("turns", first=1, last=MARKS[0] - WINDOW)
        both = [(worker, MARKS[-1]) for worker in able] + [(worker, MARKS[0]) for worker in young]
        found = _in_turns(both, disk)
        for worker, ms in zip(able, found[: len(able)], strict=True):
            took[worker.name][MARKS[-1]] = ms
        again = {worker.name: ms for worker, ms in zip(young, found[len(able) :], strict=True)}
    return _report(took, again, disk)


def _in_turns(windows: Sequence[tuple[Worker, int]], disk: dict[str, dict[int, int]]) -> list[list[float]]:
    """Milliseconds of the last turns up to each worker's mark."""
    took: list[list[float]] = [[] for _ in windows]
    for begun in range(0, WINDOW, AT_A_TIME):
        for ms, (worker, mark) in zip(took, windows, strict=True):
            first = mark - WINDOW + begun + 1
            found = worker("turns", first=first, last=first + AT_A_TIME - 1)
            ms += found["ms"]
            disk[worker.name][mark] = found["bytes"]
    return took


def _beyond(own: Sequence[float], raw: Sequence[float]) -> float:
    return median([one - other for one, other in zip(own, raw, strict=True)])


def _report(took: Times, again: dict[str, list[float]], disk: dict[str, dict[int, int]]) -> Report:
    """`again` has the times at the first mark of a new conversation, in turns with those at the last mark."""
    first, last = MARKS[0], MARKS[-1]
    at = {name: {mark: median(ms) for mark, ms in marks.items()} for name, marks in took.items()}
    beyond = {mark: _beyond(took["ours"][mark], took["raw aiohttp"][mark]) for mark in MARKS}
    beyond_again = _beyond(again["ours"], again["raw aiohttp"])
    raw_bytes = len(b"".join(json.dumps(message, separators=(",", ":")).encode() for message in history(4 * last)))
    report = Report(
        raw={"ms": took, "again": again, "bytes": disk, "raw bytes": raw_bytes, "beyond the request": beyond}
    )
    for mark in MARKS:
        beside = {name: marks[mark] for name, marks in at.items() if name != "ours" and mark in marks}
        report.figures.append(Figure(f"a turn at {mark:,} turns", at["ours"][mark], "ms", beside=beside))
    report.figures += [
        Figure(
            "... beyond the request: 1,000 by 50",
            beyond[last] / beyond_again,
            "x",
            Goal(1.5, "1.5 times the 50th, both beyond their request"),
            {f"ms at {mark}": beyond[mark] for mark in MARKS}
            | {f"at {first} again, in turns with {last}": beyond_again},
        ),
        Figure(
            "disk after 1,000 turns",
            disk["ours"][last] / 1e6,
            "MB",
            beside={
                f"{name} ({max(sizes)})": sizes[max(sizes)] / 1e6
                for name, sizes in disk.items()
                if name not in ("ours", "raw aiohttp")
            }
            | {"raw bytes": raw_bytes / 1e6},
        ),
        Figure("... by the raw bytes of its messages", disk["ours"][last] / raw_bytes, "x", Goal(4, "4 times")),
    ]
    report.series += [Series(f"turn, {name}", list(marks), list(marks.values()), "ms") for name, marks in at.items()]
    return report
