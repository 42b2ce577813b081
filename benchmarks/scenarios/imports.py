"""Imports with byte code: the package, and the server extension beside Jupyter's own."""

import subprocess
import sys

from benchmarks.frame import ROOT, Figure, Goal, Report, environment, median

# The modules imported before, and those whose import is timed.
STATEMENTS = {
    "agent_kernel": ("pass", "import agent_kernel"),
    "openai": ("pass", "import openai"),
    "notebook": ("import ipykernel.kernelapp", "import agent_kernel.notebook"),
    "ipykernel": ("pass", "import ipykernel.kernelapp"),
    "extension": ("import jupyter_server.serverapp", "import agent_kernel_server.app"),
    "jupyter_server": ("pass", "import jupyter_server.serverapp"),
}


def run(rounds: int) -> Report:
    found: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for number in range(rounds + 1):  # the first writes the byte code
        for name, (before, statement) in STATEMENTS.items():
            seconds = _seconds(before, statement)
            if number > 0:
                found[name].append(seconds)
    ms = {name: median(times) * 1e3 for name, times in found.items()}
    report = Report(raw=found)
    report.figures += [
        Figure("import agent_kernel", ms["agent_kernel"], "ms", beside={"openai": ms["openai"]}),
        Figure("... by openai", ms["agent_kernel"] / ms["openai"], "x", Goal(0.3, "0.3 times openai's")),
        Figure(
            "import of the server extension", ms["extension"], "ms", beside={"jupyter_server": ms["jupyter_server"]}
        ),
        Figure("import of the kernel's side", ms["notebook"], "ms", beside={"ipykernel": ms["ipykernel"]}),
    ]
    return report


def _seconds(before: str, statement: str) -> float:
    clock = "from time import perf_counter"
    return float(_run(f"{before}\n{clock}\nbegun = perf_counter()\n{statement}\nprint(perf_counter() - begun)"))


def _run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, cwd=ROOT, env=environment(), capture_output=True, text=True
    )
    return done.stdout
