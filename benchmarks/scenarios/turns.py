"""One conversation of 1,000 turns: milliseconds of a turn as it grows, and bytes on disk."""

import json

from benchmarks.contenders.base import history
from benchmarks.frame import Figure, Goal, ModelServer, Report, Series, Worker, median, workers

MARKS = (50, 200, 500, 1_000)
WINDOW = 20
"""The number of turns up to a mark whose median is the time at it."""
SHORT = {"create_agent": 50, "LangGraph + openai": 200}
"""The turns of slow peers, whose 1,000 turns would take a quarter of an hour."""
CONTENDERS = ("ours", "raw aiohttp", "raw aiohttp, log", *SHORT)


def run(rounds: int) -> Report:  # noqa: ARG001 (one conversation is one round)
    at: dict[str, dict[int, float]] = {}
    disk: dict[str, dict[int, int]] = {}
    with ModelServer() as server, workers(CONTENDERS, server.url) as contenders:
        for worker in contenders:
            at[worker.name], disk[worker.name] = {}, {}
        done = 0
        for mark in MARKS:
            for worker in contenders:
                if mark <= SHORT.get(worker.name, MARKS[-1]):
                    _grow(worker, done + 1, mark, at[worker.name], disk[worker.name])
            done = mark
    return _report(at, disk)


def _grow(worker: Worker, first: int, last: int, at: dict[int, float], disk: dict[int, int]) -> None:
    found = worker("turns", first=first, last=last)
    at[last] = median(found["ms"][-WINDOW:])
    disk[last] = found["bytes"]


def _report(at: dict[str, dict[int, float]], disk: dict[str, dict[int, int]]) -> Report:
    first, last = MARKS[0], MARKS[-1]
    beyond = {mark: at["ours"][mark] - at["raw aiohttp"][mark] for mark in MARKS}
    raw_bytes = len(b"".join(json.dumps(message, separators=(",", ":")).encode() for message in history(4 * last)))
    report = Report(raw={"ms": at, "bytes": disk, "raw bytes": raw_bytes, "beyond the request": beyond})
    for mark in MARKS:
        beside = {name: marks[mark] for name, marks in at.items() if name != "ours" and mark in marks}
        report.figures.append(Figure(f"a turn at {mark:,} turns", at["ours"][mark], "ms", beside=beside))
    report.figures += [
        Figure(
            "... beyond the request: 1,000 by 50",
            beyond[last] / beyond[first],
            "x",
            Goal(1.5, "1.5 times the 50th, both beyond their request"),
            {f"ms at {mark}": beyond[mark] for mark in MARKS},
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
