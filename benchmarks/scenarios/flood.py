"""Five thousand tokens through the server, the WebSocket and the widget: none may be lost."""

import itertools
import re

from benchmarks.frame import Figure, Goal, Report, median
from benchmarks.lab import LOAD, Stage, stage

TOKENS = 5_000
RATES = {"as fast as the socket takes them": f"text:{TOKENS}", "one every 0.5 ms": f"paced:{TOKENS}:500"}


def run(rounds: int) -> Report:  # noqa: ARG001
    report = Report()
    for rate, model in RATES.items():
        with stage(model, [LOAD, "%%agent\nCount."]) as on:
            _flood(on, rate, report)
    return report


def _flood(on: Stage, rate: str, report: Report) -> None:
    on.notebook.run_through(0)
    before = on.look("() => bench.frames.length")
    on.notebook.run(1)
    (asked,) = on.wait_for_requests(1)
    on.wait(f"() => document.body.textContent.includes('{TOKENS - 1:04d}')")
    shown = on.look("() => performance.timeOrigin + performance.now()")
    frames = on.look("() => bench.frames")[before:]
    on.notebook.record().wait_for()
    on.wait_for_end()
    text = on.notebook.record().inner_text()
    seqs = on.look("() => bench.seqs")
    found = {int(number) for number in re.findall(r"\b\d{4}\b", text)}
    gaps = sum(later - earlier != 1 for earlier, later in itertools.pairwise(seqs))
    pauses = sorted(later - earlier for earlier, later in itertools.pairwise(frames))
    report.raw[rate] = {"frames on the channel": len(seqs), "pauses": pauses}
    report.figures += [
        Figure(f"tokens lost of 5,000, {rate}", len(set(range(TOKENS)) - found), "", Goal(0, "none")),
        Figure(f"... gaps in the channel's {len(seqs)} frames", gaps, "", Goal(0, "none")),
        Figure(
            "... request -> the last token on screen",
            shown - asked["ns"] / 1e6,
            "ms",
            beside={"pause between two frames, p50": median(pauses), "longest": pauses[-1]},
        ),
    ]
