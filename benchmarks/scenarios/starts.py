"""What a start costs: imports, the first prompt on a server and in a kernel, and an idle server's memory."""

import subprocess
import sys
import time
from datetime import datetime

from jupyter_client.manager import start_new_kernel

from benchmarks.frame import ROOT, Figure, Goal, ModelServer, Report, environment, median
from benchmarks.lab import stage

PACKAGES = ("agent_kernel", "openai")
FIRST_USE = (
    "import time\nbegun = time.perf_counter()\n%load_ext agent_kernel\nprint((time.perf_counter() - begun) * 1e3)",
    "%%agent\nSay something.",
)
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
"""As many cells, on a server without the extension."""
PRINT = "print(time.perf_counter() - begun)"
EMBEDDED = f"""import time
begun = time.perf_counter()
%load_ext agent_kernel
import agent_kernel
from agent_kernel.testing import ScriptedModel, say
agent_kernel.Agent(model=ScriptedModel([say("Something.")])).run("Say something.").wait()
{PRINT}"""
"""As with a recording: no service is asked, and openai is not imported."""
SETTLED_SECONDS = 3.0
"""A server that has grown by less than `NOISE` in this time has done what it does in the background."""
NOISE = 256 * 1024
MOST_SECONDS = 30.0


def imports(rounds: int) -> Report:
    """The package's import with byte code, by openai's."""
    found: dict[str, list[float]] = {name: [] for name in PACKAGES}
    for number in range(rounds + 1):  # the first writes the byte code
        for name, seconds in found.items():
            took = _import_seconds(name)
            if number > 0:
                seconds.append(took)
    ours, theirs = (median(found[name]) * 1e3 for name in PACKAGES)
    report = Report(raw=dict(found))
    report.figures += [
        Figure("import agent_kernel", ours, "ms", beside={"openai": theirs}),
        Figure("... by openai", ours / theirs, "x", Goal(0.3, "0.3 times openai's")),
    ]
    return report


def _import_seconds(package: str) -> float:
    program = f"import time\nbegun = time.perf_counter()\nimport {package}\n{PRINT}"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, cwd=ROOT, env=environment(), capture_output=True, text=True
    )
    return float(done.stdout)


def first_use(rounds: int) -> Report:
    """The first prompt on a fresh server: from Run All to the first token on screen.

    Beside it is a cell that asks the model by itself and shows the answer in a widget of one line: the same kernel, the
    same widget library, the same page, and no agent.
    """
    found, floors = [], []
    for number in range(_few(rounds)):
        for is_ours in (True, False) if number % 2 else (False, True):
            if is_ours:
                found.append(_prompt())
            else:
                floors.append(_ask())
    parts = {part: median([one[part] for one in found]) for part in found[0]}
    whole, floor = parts.pop("in all"), median(floors)
    parts["a cell that asks the model and shows a minimal widget"] = floor
    report = Report(raw={"parts": found, "a minimal widget": floors})
    report.figures += [
        Figure("first use: Run All on a fresh server -> first token on screen", whole, "ms", None, parts),
        Figure("... above the same without the agent", whole - floor, "ms", Goal(600, "0.6 s")),
    ]
    return report


def _few(rounds: int) -> int:
    """Where each measurement starts a server, three of each are the most."""
    return max(1, min(3, rounds - 1))


def _prompt() -> dict[str, float]:
    with stage("paced:200:10000", FIRST_USE) as on:
        pressed = on.run_all()
        on.wait("() => bench.token")
        shown = on.look("() => bench.token")
        requested = on.model.requests()[-1]["ns"] / 1e6
        begun = datetime.fromisoformat(on.conversation()["runs"][0]["started_at"]).timestamp() * 1e3
        on.wait_for_end()
        load = float(on.notebook.text(0))
    return {
        "in all": shown - pressed,
        "%load_ext in the kernel": load,
        "Run All -> the run begins in the server": begun - pressed,
        "... -> the model is asked": requested - begun,
        "... -> the first token is on screen": shown - requested,
    }


def _ask() -> float:
    with stage("text:5", MINIMAL, extension=False) as on:
        pressed = on.run_all()
        on.wait("() => bench.plain[1]")
        return float(on.look("() => performance.timeOrigin + bench.plain[1]")) - pressed


def embedded(rounds: int) -> Report:
    """The first run of an embedded kernel, from `%load_ext` to its end: every notebook under nbval and papermill pays
    it."""
    with ModelServer() as server:
        found = [_kernel_seconds(EMBEDDED, server.url) for _ in range(rounds + 1)][1:]  # the first writes the byte code
    what = "%load_ext -> the end of a first embedded run"
    report = Report(raw={"first run": found})
    report.figures.append(Figure(what, median(found) * 1e3, "ms", Goal(1_100, "1.1 s")))
    return report


def _kernel_seconds(code: str, base_url: str) -> float:
    """What the last line of the code prints, in a kernel of its own."""
    printed: list[str] = []
    manager, client = start_new_kernel(
        env=environment(OPENAI_BASE_URL=base_url, OPENAI_API_KEY="none", AGENT_KERNEL_MODEL="text:5")
    )
    try:
        reply = client.execute_interactive(
            code,
            timeout=60,
            allow_stdin=False,  # as nbval and papermill send it
            output_hook=lambda message: printed.append(message["content"].get("text", "")),
        )
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert reply["content"]["status"] == "ok", reply["content"]
    return float("".join(printed).split()[-1])


def idle_memory(rounds: int, settled: float = SETTLED_SECONDS) -> Report:
    """Resident memory of a server whose user runs cells and no agent, with the extension and without it, in turns."""
    found: dict[bool, list[float]] = {True: [], False: []}
    for number in range(_few(rounds)):
        for extension in (True, False) if number % 2 else (False, True):
            found[extension].append(_idle(settled, extension=extension))
    more = median([ours - plain for ours, plain in zip(found[True], found[False], strict=True)])
    beside = {"with it": median(found[True]), "without": median(found[False])}
    what = "memory that the extension adds to an idle server"
    report = Report(raw={"with the extension": found[True], "without": found[False]})
    report.figures.append(Figure(what, more, "MB", Goal(30, "30 MB"), beside))
    return report


def _idle(settled: float, *, extension: bool) -> float:
    """Megabytes once a notebook was opened and a cell was run, and the server has come to rest."""
    with stage("text:5", ["1 + 1"], extension=extension) as on:
        on.notebook.run(0)
        deadline = time.monotonic() + MOST_SECONDS
        memory, grown = 0, NOISE
        while grown >= NOISE and time.monotonic() < deadline:
            time.sleep(settled)
            memory, grown = on.server_memory(), on.server_memory() - memory
    return memory / 1e6
