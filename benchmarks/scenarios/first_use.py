"""The first prompt on a fresh server: from `%load_ext` to the first token on screen, and where the time goes."""

from datetime import datetime

from benchmarks.frame import Figure, Report, median
from benchmarks.lab import stage

CELLS = (
    "import time\nbegun = time.perf_counter()\n%load_ext agent_kernel\nprint((time.perf_counter() - begun) * 1e3)",
    "%%agent\nSay something.",
)


def run(rounds: int) -> Report:
    found = [_once() for _ in range(max(1, rounds // 3))]
    parts = {part: median([one[part] for one in found]) for part in found[0]}
    report = Report(raw={"parts": found})
    report.figures.append(
        Figure("first use: %load_ext and the first prompt -> first token", sum(parts.values()), "ms", beside=parts)
    )
    return report


def _once() -> dict[str, float]:
    with stage("paced:200:10000", CELLS) as on:
        on.notebook.run(0)
        load = float(on.notebook.text(0))
        pressed = on.look("() => performance.timeOrigin + performance.now()")
        on.notebook.run(1, wait=False)
        on.wait("() => bench.token")
        shown = on.look("() => bench.token")
        (asked,) = on.model.requests()
        begun = datetime.fromisoformat(on.conversation()["runs"][0]["started_at"]).timestamp() * 1e3
        on.wait_for_end()
    requested = asked["ns"] / 1e6
    return {
        "%load_ext in the kernel": load,
        "the cell -> its run begins in the server": begun - pressed,
        "... -> the model is asked": requested - begun,
        "... -> the first token is on screen": shown - requested,
    }
