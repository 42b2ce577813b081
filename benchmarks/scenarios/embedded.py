"""The first run of an embedded kernel, from `%load_ext` to its end.

Every notebook under nbval and papermill pays it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

from benchmarks.frame import Figure, Floor, Goal, ModelServer, Report, environment, median

PRINT = "print(time.perf_counter() - begun)"
RUN = f"""import time
begun = time.perf_counter()
%load_ext agent_kernel
import agent_kernel
from agent_kernel.testing import ScriptedModel, say
agent_kernel.Agent(model=ScriptedModel([say("Something.")])).run("Say something.").wait()
{PRINT}"""
"""As with a recording: no service is asked, and openai is not imported."""
ASKING = f"""import time
begun = time.perf_counter()
%load_ext agent_kernel
%agent --wait Say something.
{PRINT}"""
IMPORT = f"""import time
begun = time.perf_counter()
import langgraph.graph
{PRINT}"""


def run(rounds: int) -> Report:
    found: dict[str, list[float]] = {RUN: [], ASKING: [], IMPORT: []}
    with ModelServer() as server:
        for number in range(rounds + 1):  # the first writes the byte code
            for code, seconds in found.items():
                took = _seconds(code, server.url)
                if number > 0:
                    seconds.append(took)
    report = Report(raw={"first run": found[RUN], "asking": found[ASKING], "import": found[IMPORT]})
    report.figures.append(
        Figure(
            "%load_ext -> the end of a first embedded run",
            median(found[RUN]) * 1e3,
            "ms",
            Goal(1_100, "1.1 s"),
            {"of one that asks a service by openai's client": median(found[ASKING]) * 1e3},
            Floor(median(found[IMPORT]) * 1e3, "import of LangGraph"),
        )
    )
    return report


def _seconds(code: str, base_url: str) -> float:
    """What the last line of the code prints, in a kernel of its own."""
    printed: list[str] = []
    with _kernel(base_url) as client:
        reply = client.execute_interactive(
            code,
            timeout=60,
            allow_stdin=False,  # as nbval and papermill send it
            output_hook=lambda message: printed.append(message["content"].get("text", "")),
        )
    assert reply["content"]["status"] == "ok", reply["content"]
    return float("".join(printed).split()[-1])


@contextmanager
def _kernel(base_url: str) -> Iterator[BlockingKernelClient]:
    given = {"OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": "none", "AGENT_KERNEL_MODEL": "text:5"}
    manager, client = start_new_kernel(env=environment(**given))
    try:
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
