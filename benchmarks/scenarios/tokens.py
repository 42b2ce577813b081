"""Token throughput: a burst of 5,000 tokens, and the processor time of a token that comes every 2 ms."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.frame import Figure, Goal, ModelServer, Report, median, medians, ratio, take_turns, workers

BURST = 5_000
PACED = 1_500
MICROS = 2_000
CHARACTERS = 5
"""The length of the fake model's tokens."""
CONTENDERS = ("ours", "raw aiohttp", "create_agent")
STAMPED = 500
Found = Mapping[str, Sequence[Mapping[str, Any]]]


def run(rounds: int) -> Report:
    few = max(1, rounds // 2)
    with ModelServer() as server, workers(CONTENDERS, server.url) as contenders:
        burst = take_turns(contenders, rounds, lambda worker: worker("answer", model=f"text:{BURST}"))
        paced = take_turns(contenders, few, lambda worker: worker("answer", model=f"paced:{PACED}:{MICROS}"))
        late = take_turns(contenders, few, lambda worker: worker("latency", model=f"stamped:{STAMPED}:{MICROS}"))
    for found, tokens in ((burst, BURST), (paced, PACED)):
        for name, results in found.items():
            assert all(result["characters"] == tokens * CHARACTERS for result in results), f"{name} lost tokens"
    speed = {name: BURST / seconds for name, seconds in medians(burst, "wall").items()}
    micros = medians(paced, "cpu", 1e6 / PACED)
    report = Report(raw={"burst": burst, "paced": paced, "latency": late})
    report.figures.append(Figure("tokens per second, burst of 5,000", speed.pop("ours"), "1/s", beside=speed))
    if "create_agent" in burst:
        times = ratio(burst, "create_agent", "ours", "wall")
        report.figures.append(Figure("... by create_agent's", times, "x", Goal(5, "5 times", "at least")))
    floor = ratio(paced, "ours", "raw aiohttp", "cpu")
    report.figures += [
        Figure("CPU per paced token", micros.pop("ours"), "µs", beside=micros),
        Figure("... by raw aiohttp's", floor, "x", Goal(4, "4 times")),
        _latency(late),
    ]
    return report


def _latency(found: Found) -> Figure:
    """The wait of a paced token on the way to its reader: tokens are gathered before they are committed and sent."""
    waits = {name: sorted(one for result in results for one in result["ms"]) for name, results in found.items()}
    middle = {name: median(ms) for name, ms in waits.items()}
    last = {f"{name}, p99": ms[len(ms) * 99 // 100] for name, ms in waits.items()}
    return Figure("a paced token, written -> read by a client, p50", middle.pop("ours"), "ms", beside=middle | last)
