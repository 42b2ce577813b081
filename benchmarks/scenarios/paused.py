"""Many conversations that wait for an approval: the heap that each holds, and the time to answer them all."""

from benchmarks.frame import Figure, Goal, ModelServer, Report, WorkerFailed, medians, take_turns, workers

CONTENDERS = ("ours, many paused", "raw aiohttp, log", "ours, in memory", "LangGraph + openai", "create_agent")
COUNTS = (200, 1_000)


def run(rounds: int) -> Report:
    report = Report()
    for count in COUNTS:
        # A peer takes minutes for a thousand conversations; two hundred are enough.
        names = CONTENDERS if count == min(COUNTS) else CONTENDERS[:2]
        some = max(1, rounds // 3)
        heap: dict[str, float] = {}
        with ModelServer() as server, workers(names, server.url) as contenders:
            found = take_turns(contenders, some, lambda worker: worker("paused", count=count, heap=False))  # noqa: B023
            for worker in contenders:
                try:
                    heap[worker.name] = worker("paused", count=count, heap=True)["bytes"] / 1024
                except WorkerFailed as failure:
                    report.notes.append(f"heap of {worker.name}: {str(failure).splitlines()[-1]}")
        seconds = medians(found, "seconds")
        report.raw[str(count)] = {"seconds": found, "heap": heap}
        goal = Goal(16, "16 KiB")
        report.figures += [
            Figure(f"heap of each of {count:,} paused conversations", heap.pop("ours, many paused"), "KiB", goal, heap),
            Figure(f"answering all {count:,}", seconds.pop("ours, many paused"), "s", beside=seconds),
        ]
    return report
