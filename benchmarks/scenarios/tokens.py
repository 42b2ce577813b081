"""Token throughput: a burst of 5,000 tokens, and the processor time of a token that comes every 2 ms."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.frame import Figure, Goal, ModelServer, Report, median, medians, ratio, take_turns, workers

BURST = 5_000
PACED = 1_500
MICROS = 2_000
CHARACTERS = 5
"""The length of the fake model's tokens."""
ADAPTERS = {"ours": "", "ours, responses": "Responses: ", "ours, messages": "Messages: "}
"""Our contender in each API, with the prefix of its figures. Peers and baselines speak Chat Completions."""
CONTENDERS = (
    *ADAPTERS,
    "raw aiohttp",
    "raw httpx",
    "LangGraph + openai",
    "create_agent",
    "pydantic-ai",
    "openai-agents",
)
STAMPED = 500
LATE = ("ours", "raw aiohttp", "create_agent")
Found = Mapping[str, Sequence[Mapping[str, Any]]]


def run(rounds: int) -> Report:
    with ModelServer() as server, workers(CONTENDERS, server.url) as contenders:
        burst = take_turns(contenders, rounds, lambda worker: worker("answer", model=f"text:{BURST}"))
        paced = take_turns(
            contenders, max(1, rounds // 2), lambda worker: worker("answer", model=f"paced:{PACED}:{MICROS}")
        )
    with ModelServer() as server, workers(LATE, server.url) as contenders:
        late = take_turns(
            contenders, max(1, rounds // 2), lambda worker: worker("latency", model=f"stamped:{STAMPED}:{MICROS}")
        )
    for found, tokens in ((burst, BURST), (paced, PACED)):
        for name, results in found.items():
            assert all(result["characters"] == tokens * CHARACTERS for result in results), f"{name} lost tokens"
    report = Report(raw={"burst": burst, "paced": paced, "latency": late})
    for name in ADAPTERS:
        report.figures += _figures(name, burst, paced)
    report.figures.append(_latency(late))
    return report


def _figures(name: str, burst: Found, paced: Found) -> Iterator[Figure]:
    """The figures of one of our adapters against the same goals, and the others' beside them."""
    begins = ADAPTERS[name]
    speed = {one: BURST / seconds for one, seconds in medians(burst, "wall").items()}
    micros = medians(paced, "cpu", 1e6 / PACED)
    others = [one for one in speed if one not in ADAPTERS]
    yield Figure(
        f"{begins}tokens per second, burst of 5,000", speed[name], "1/s", beside={one: speed[one] for one in others}
    )
    if "create_agent" in burst:
        times = ratio(burst, "create_agent", name, "wall")
        yield Figure(f"{begins}... by create_agent's", times, "x", Goal(5, "5 times create_agent's", "at least"))
    yield Figure(
        f"{begins}... by a raw httpx reader's",
        ratio(burst, "raw httpx", name, "wall"),
        "x",
    )
    yield Figure(f"{begins}CPU per paced token", micros[name], "µs", beside={one: micros[one] for one in others})
    yield Figure(
        f"{begins}... by the raw aiohttp floor's",
        ratio(paced, name, "raw aiohttp", "cpu"),
        "x",
        Goal(4, "4 times the raw aiohttp floor's"),
    )


def _latency(found: Found) -> Figure:
    """The wait of a paced token on the way to its reader: tokens are gathered before they are committed and sent."""
    waits = {name: sorted(one for result in results for one in result["ms"]) for name, results in found.items()}
    middle = {name: median(ms) for name, ms in waits.items()}
    last = {f"{name}, p99": ms[len(ms) * 99 // 100] for name, ms in waits.items()}
    return Figure("a paced token, written -> read by a client, p50", middle.pop("ours"), "ms", beside=middle | last)
