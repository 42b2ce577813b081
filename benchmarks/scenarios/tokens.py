"""Token throughput: a burst of 5,000 tokens, and the processor time of a token that comes every 2 ms."""

from benchmarks.frame import Figure, Goal, ModelServer, Report, medians, ratio, take_turns, workers

BURST = 5_000
PACED = 1_500
MICROS = 2_000
CHARACTERS = 5
"""Of one token of the fake model."""
CONTENDERS = (
    "ours",
    "raw aiohttp",
    "raw httpx",
    "LangGraph + openai",
    "create_agent",
    "pydantic-ai",
    "openai-agents",
)


def run(rounds: int) -> Report:
    with ModelServer() as server, workers(CONTENDERS, server.url) as contenders:
        burst = take_turns(contenders, rounds, lambda worker: worker("answer", model=f"text:{BURST}"))
        paced = take_turns(
            contenders, max(1, rounds // 2), lambda worker: worker("answer", model=f"paced:{PACED}:{MICROS}")
        )
    for found, tokens in ((burst, BURST), (paced, PACED)):
        for name, results in found.items():
            assert all(result["characters"] == tokens * CHARACTERS for result in results), f"{name} lost tokens"
    speed = {name: BURST / seconds for name, seconds in medians(burst, "wall").items()}
    micros = medians(paced, "cpu", 1e6 / PACED)
    report = Report(raw={"burst": burst, "paced": paced})
    report.figures += [
        Figure("tokens per second, burst of 5,000", speed.pop("ours"), "1/s", beside=speed),
        Figure(
            "... by a raw httpx reader's",
            ratio(burst, "raw httpx", "ours", "wall"),
            "x",
            Goal(0.5, "half of a raw httpx reader's", "at least"),
        ),
        Figure("CPU per paced token", micros.pop("ours"), "µs", beside=micros),
        Figure(
            "... by the raw aiohttp floor's",
            ratio(paced, "ours", "raw aiohttp", "cpu"),
            "x",
            Goal(2.5, "2.5 times the raw aiohttp floor's"),
        ),
    ]
    if "create_agent" in burst:
        times = ratio(burst, "create_agent", "ours", "wall")
        report.figures.insert(
            1, Figure("... by create_agent's", times, "x", Goal(5, "5 times create_agent's", "at least"))
        )
    return report
