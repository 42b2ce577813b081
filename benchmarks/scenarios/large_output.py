"""A call that prints 100 MB: its duration, and the sizes in the log, in the request and in the server's memory."""

import subprocess
import sys
import time

from benchmarks.contenders.base import database_bytes
from benchmarks.frame import Figure, Goal, Report
from benchmarks.lab import LOAD, stage
from benchmarks.model_server import CODE


def run(rounds: int) -> Report:  # noqa: ARG001
    with stage("run:megabytes:1:20:0", [LOAD, "%%agent --policy allow\nPrint."]) as on:
        on.notebook.run_through(0)
        log = on.lab.home / "data" / "agent-kernel" / "agent-kernel.sqlite"
        bytes_before, peak_before = database_bytes(log), on.server_memory("VmHWM")
        on.notebook.run(1)
        asked, answered = on.wait_for_requests(2, 180)
        on.wait_for_end()
        written, grown = database_bytes(log) - bytes_before, on.server_memory("VmHWM") - peak_before
    report = Report()
    report.figures += [
        Figure(
            "a call that prints 100 MB, with its model request",
            (answered["ns"] - asked["ns"]) / 1e9,
            "s",
            beside={"the same in a bare python, thrown away": _floor()},
        ),
        Figure("... what the log keeps of it", written / 1e6, "MB", Goal(5, "5 MB")),
        Figure("... what the model gets of it", (answered["bytes"] - asked["bytes"]) / 1e3, "kB", Goal(100, "100 kB")),
        Figure("... growth of the server's peak memory", grown / 1e6, "MB", Goal(100, "the output itself, 100 MB")),
    ]
    return report


def _floor() -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", CODE["megabytes"]], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun
