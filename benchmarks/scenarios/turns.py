"""One conversation of 1,000 turns: milliseconds of a turn as it grows, and bytes on disk.

What a turn costs beyond its request is the difference of two contenders' times, and its growth the quotient of two such
differences of a few milliseconds: it says nothing where they are of different moments or of few turns. So turns of the
long conversation from the 1,000th on are made in turns with those around the 50th of a new one.
"""

import json
from collections.abc import Sequence
from typing import Any

from benchmarks.contenders.base import history
from benchmarks.frame import Figure, Goal, ModelServer, Report, Worker, median, workers

MARKS = (50, 200, 500, 1_000)
WINDOW = 20
"""The number of turns up to a mark whose median is the time at it."""
COMPARED = 60
"""The number of turns of the long conversation after the last mark, and of a new one around the first, whose medians
are compared. With 20 the quotient went from 0.9 to 1.8 on one machine."""
AT_A_TIME = 10
"""Turns of one contender before the next one has its own: most are not the first after a pause, which costs more."""
SHORT = {"create_agent": 50}
"""The turns of the peer, whose 1,000 turns would take a quarter of an hour."""
AGAIN = ("ours", "raw aiohttp")
"""Those that have a new conversation too."""
CONTENDERS = ("ours", "raw aiohttp", "raw aiohttp, log", *SHORT)


Times = dict[str, dict[int, list[float]]]
"""Milliseconds of the turns up to each mark, by contender."""


def run(rounds: int) -> Report:  # noqa: ARG001 (one conversation is one round)
    with (
        ModelServer() as server,
        workers(CONTENDERS, server.url) as contenders,
        workers(AGAIN, server.url) as young,
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
        found = _in_turns([(worker, MARKS[-1]) for worker in able], disk)
        for worker, ms in zip(able, found, strict=True):
            took[worker.name][MARKS[-1]] = ms
        compared = _compared([worker for worker in able if worker.name in AGAIN], list(young))
    return _report(took, compared, disk)


def _in_turns(windows: Sequence[tuple[Worker, int]], disk: dict[str, dict[int, int]]) -> list[list[float]]:
    """Milliseconds of the last turns up to each worker's mark."""
    took: list[list[float]] = [[] for _ in windows]
    for begun in range(0, WINDOW, AT_A_TIME):
        for ms, (worker, mark) in zip(took, windows, strict=True):
            found = _next_turns(worker, mark - WINDOW + begun)
            ms += found["ms"]
            disk[worker.name][mark] = found["bytes"]
    return took


def _compared(old: Sequence[Worker], young: Sequence[Worker]) -> dict[str, list[list[float]]]:
    """Milliseconds of turns from the last mark on, and of a new conversation around the first mark, by contender."""
    begin = MARKS[0] - COMPARED // 2
    for worker in young:
        worker("turns", first=1, last=begin)
    both = [*((worker, MARKS[-1]) for worker in old), *((worker, begin) for worker in young)]
    took: dict[str, list[list[float]]] = {name: [[], []] for name in AGAIN}
    for done in range(0, COMPARED, AT_A_TIME):
        for place, (worker, before) in enumerate(both):
            took[worker.name][place // len(old)] += _next_turns(worker, before + done)["ms"]
    return took


def _next_turns(worker: Worker, done: int) -> dict[str, Any]:
    """Some turns of a conversation that has so many."""
    return worker("turns", first=done + 1, last=done + AT_A_TIME)


def _beyond(own: Sequence[float], raw: Sequence[float]) -> float:
    return median([one - other for one, other in zip(own, raw, strict=True)])


def _report(took: Times, compared: dict[str, list[list[float]]], disk: dict[str, dict[int, int]]) -> Report:
    """`compared` is what `_compared` returns."""
    first, last = MARKS[0], MARKS[-1]
    at = {name: {mark: median(ms) for mark, ms in marks.items()} for name, marks in took.items()}
    beyond = {mark: _beyond(took["ours"][mark], took["raw aiohttp"][mark]) for mark in MARKS}
    old, young = (_beyond(compared["ours"][place], compared["raw aiohttp"][place]) for place in (0, 1))
    raw_bytes = len(b"".join(json.dumps(message, separators=(",", ":")).encode() for message in history(4 * last)))
    report = Report(
        raw={"ms": took, "compared": compared, "bytes": disk, "raw bytes": raw_bytes, "beyond the request": beyond}
    )
    for mark in MARKS:
        beside = {name: marks[mark] for name, marks in at.items() if name != "ours" and mark in marks}
        report.figures.append(Figure(f"a turn at {mark:,} turns", at["ours"][mark], "ms", beside=beside))
    report.figures += [
        Figure(
            "... beyond the request: 1,000 by 50",
            old / young,
            "x",
            Goal(1.5, "1.5 times the 50th, both beyond their request"),
            {f"ms at {mark}": beyond[mark] for mark in MARKS}
            | {f"in turns: from {last} on": old, f"around {first}": young},
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
        Figure("... by the raw bytes of its messages", disk["ours"][last] / raw_bytes, "x", Goal(6, "6 times")),
    ]
    return report
