"""Twenty tool steps in a row, everything on disk: what each adds to the bare requests."""

from benchmarks.frame import Figure, Goal, ModelServer, Report, median, medians, take_turns, workers

STEPS = 20
CONTENDERS = ("raw aiohttp", "ours", "raw aiohttp, log", "create_agent")


def run(rounds: int) -> Report:
    with ModelServer() as server, workers(CONTENDERS, server.url) as contenders:
        found = take_turns(contenders, rounds, lambda worker: worker("steps", model=f"steps:{STEPS}"))
    for name, results in found.items():
        assert all(result["calls"] == STEPS for result in results), f"{name} did not run every call"
    floor = medians(found, "wall")["raw aiohttp"]
    added = {
        name: (wall - floor) * 1e3 / STEPS for name, wall in medians(found, "wall").items() if name != "raw aiohttp"
    }
    ours = added.pop("ours")
    report = Report(raw={"steps": found})
    report.figures.append(Figure("added time per tool step, log on disk", ours, "ms", beside=added))
    if "create_agent" in found:
        shares = [
            (mine["wall"] - base["wall"]) / (theirs["wall"] - base["wall"])
            for mine, theirs, base in zip(found["ours"], found["create_agent"], found["raw aiohttp"], strict=True)
        ]
        goal = Goal(0.5, "half of create_agent's with its state on SQLite")
        report.figures.append(Figure("... by create_agent's", median(shares), "x", goal))
    return report
