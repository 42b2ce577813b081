"""The first prompt on a server: from Run All to the first token on screen, by JupyterLab's own Run All.

The floor is a cell that asks the model by itself and shows the answer in a widget of one line: the same kernel, the
same widget library, the same page, and no agent.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from benchmarks.frame import Figure, Floor, Goal, Report, median
from benchmarks.lab import stage

CELLS = (
    "import time\nbegun = time.perf_counter()\n%load_ext agent_kernel\nprint((time.perf_counter() - begun) * 1e3)",
    "%%agent\nSay something.",
)
PLAIN = ("pass", "print('something')")
"""As many cells, on a server without the extension."""
MINIMAL = (
    "import os, json, urllib.request\nimport anywidget",
    """
asked = {"model": os.environ["AGENT_KERNEL_MODEL"], "messages": [{"role": "user", "content": "Say something."}]}
address = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
urllib.request.urlopen(urllib.request.Request(address, json.dumps(asked).encode())).readline()

class Words(anywidget.AnyWidget):
    _esm = "export default { render({ el }) { el.className = 'bench-plain'; el.textContent = 'something'; } }"

Words()""",
)
READING_SECONDS = 3.0


@dataclass(slots=True)
class Case:
    what: str
    reading: float = 0.0
    """Seconds between the notebook's opening and Run All."""
    found: list[dict[str, float]] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)
    """Of cells that only print."""
    floors: list[float] = field(default_factory=list)


def run(rounds: int) -> Report:
    cases = [
        Case("first use: Run All on a fresh server -> first token on screen"),
        Case("first use after 3 s of reading", reading=READING_SECONDS),
    ]
    for number in range(max(1, min(3, rounds - 1))):  # each measurement starts a server
        for case in cases:
            for measure in (_once, _print, _ask) if number % 2 else (_ask, _print, _once):
                measure(case)
    report = Report(
        raw={
            case.what: {"parts": case.found, "JupyterLab's Run All": case.plain, "a minimal widget": case.floors}
            for case in cases
        }
    )
    for case in cases:
        report.figures += _figures(case)
    return report


def _figures(case: Case) -> Iterator[Figure]:
    parts = {part: median([one[part] for one in case.found]) for part in case.found[0]}
    whole = parts.pop("in all")
    plain = {"JupyterLab's Run All -> a cell's output on screen": median(case.plain)}
    floor = Floor(median(case.floors), "a cell that asks the model and shows a minimal widget")
    yield Figure(case.what, whole, "ms", None, plain | parts, floor)
    yield Figure("... above the same without the agent", whole - floor.value, "ms", Goal(600, "0.6 s"))


def _once(case: Case) -> None:
    with stage("paced:200:10000", CELLS) as on:
        time.sleep(case.reading)
        pressed = on.run_all()
        on.wait("() => bench.token")
        shown = on.look("() => bench.token")
        asked = on.model.requests()[-1]
        begun = datetime.fromisoformat(on.conversation()["runs"][0]["started_at"]).timestamp() * 1e3
        on.wait_for_end()
        load = float(on.notebook.text(0))
    requested = asked["ns"] / 1e6
    case.found.append(
        {
            "in all": shown - pressed,
            "%load_ext in the kernel": load,
            "Run All -> the run begins in the server": begun - pressed,
            "... -> the model is asked": requested - begun,
            "... -> the first token is on screen": shown - requested,
        }
    )


def _print(case: Case) -> None:
    with stage("text:5", PLAIN, extension=False) as on:
        time.sleep(case.reading)
        pressed = on.run_all()
        on.wait("() => bench.printed")
        case.plain.append(on.look("() => bench.printed") - pressed)


def _ask(case: Case) -> None:
    with stage("text:5", MINIMAL, extension=False) as on:
        time.sleep(case.reading)
        pressed = on.run_all()
        on.wait("() => bench.plain[1]")
        case.floors.append(on.look("() => performance.timeOrigin + bench.plain[1]") - pressed)
