"""The first prompt on a server: from Run All to the first token on screen, by JupyterLab's own Run All."""

import time
from dataclasses import dataclass, field
from datetime import datetime

from benchmarks.frame import Figure, Goal, Report, median
from benchmarks.lab import stage

CELLS = (
    "import time\nbegun = time.perf_counter()\n%load_ext agent_kernel\nprint((time.perf_counter() - begun) * 1e3)",
    "%%agent\nSay something.",
)
PLAIN = ("pass", "print('something')")
"""The floor: as many cells, on a server without the extension."""
READING_SECONDS = 3.0


@dataclass(slots=True)
class Case:
    what: str
    reading: float = 0.0
    """Seconds between the notebook's opening and Run All."""
    used: bool = False
    """Whether agents have run here before."""
    found: list[dict[str, float]] = field(default_factory=list)
    floors: list[float] = field(default_factory=list)


def run(rounds: int) -> Report:
    cases = [
        Case("first use: Run All on a fresh server -> first token on screen"),
        Case("... after 3 s of reading", reading=READING_SECONDS),
        Case("... at once, where agents have run before", used=True),
    ]
    for number in range(max(1, min(3, rounds - 1))):  # each measurement starts a server
        for case in cases:
            for plain in (True, False) if number % 2 else (False, True):
                if plain:
                    case.floors.append(_floor(case))
                else:
                    case.found.append(_once(case))
    report = Report(raw={case.what: {"parts": case.found, "JupyterLab's Run All": case.floors} for case in cases})
    report.figures += map(_figure, cases)
    return report


def _figure(case: Case) -> Figure:
    parts = {part: median([one[part] for one in case.found]) for part in case.found[0]}
    whole = parts.pop("in all")
    floor = {"JupyterLab's Run All -> a cell's output on screen": median(case.floors)}
    return Figure(case.what, whole, "ms", Goal(300, "300 ms"), floor | parts)


def _once(case: Case) -> dict[str, float]:
    with stage("paced:200:10000", CELLS, used=case.used) as on:
        time.sleep(case.reading)
        pressed = on.run_all()
        on.wait("() => bench.token")
        shown = on.look("() => bench.token")
        asked = on.model.requests()[-1]
        begun = datetime.fromisoformat(on.conversation()["runs"][0]["started_at"]).timestamp() * 1e3
        on.wait_for_end()
        load = float(on.notebook.text(0))
    requested = asked["ns"] / 1e6
    return {
        "in all": shown - pressed,
        "%load_ext in the kernel": load,
        "Run All -> the run begins in the server": begun - pressed,
        "... -> the model is asked": requested - begun,
        "... -> the first token is on screen": shown - requested,
    }


def _floor(case: Case) -> float:
    with stage("text:5", PLAIN, extension=False) as on:
        time.sleep(case.reading)
        pressed = on.run_all()
        on.wait("() => bench.printed")
        printed: float = on.look("() => bench.printed")
    return printed - pressed
