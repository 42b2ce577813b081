"""Eight runs at once on one server, each in a kernel of its own: from an approval to the call, by one run's.

All calls of a wave are approved at the same moment, by HTTP. The floor is a bare client of the same kernels, which asks
them all for the time at once: as many processes, and no server, log or approval.
"""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.bare import BareKernel, bare_kernel
from benchmarks.frame import Figure, Floor, Goal, ModelServer, Report, median
from benchmarks.lab import LOAD, UNENDING, server_variables
from tests.e2e.lab import LabServer
from tests.programs import wait_until

KERNELS = 8
CALLS = 10
"""The calls of each run in a round, one after another."""


def run(rounds: int, kernels: int = KERNELS, calls: int = CALLS) -> Report:
    found: dict[str, list[float]] = {"many": [], "alone": [], "bare": [], "bare, alone": []}
    model = f"run:clock:{calls}:5:0"
    with (
        ModelServer() as server,
        TemporaryDirectory(ignore_cleanup_errors=True) as home,
        LabServer(Path(home), server_variables(server, model), app="jupyter_server", arguments=UNENDING) as lab,
        _kernels(lab, kernels) as bare,
        ThreadPoolExecutor(kernels) as people,
    ):
        for number in range(rounds + 1):
            measured = {
                "many": _approvals(lab, list(bare), calls, people),
                "bare": _clocks(list(bare.values()), calls, people),
                "alone": _approvals(lab, list(bare)[:1], calls, people),
                "bare, alone": _clocks(list(bare.values())[:1], calls, people),
            }
            if number > 0:  # the first is a warm-up
                for name, times in measured.items():
                    found[name] += times
        lab.close_kernels()
    p99 = {name: sorted(times)[len(times) * 99 // 100] for name, times in found.items()}
    return Report(
        raw=dict(found),
        figures=[
            Figure(
                f"{kernels} runs at once, each in its own kernel, approve -> the call runs, p99",
                p99["many"],
                "ms",
                beside={
                    "p50": median(found["many"]),
                    "p50 of one run": median(found["alone"]),
                    "p99 of one run": p99["alone"],
                },
                floor=Floor(p99["bare"], "bare requests to as many kernels at once"),
            ),
            Figure(
                "... by the p50 of one run",
                p99["many"] / median(found["alone"]),
                "x",
                Goal(5, "5 times that"),
                floor=Floor(p99["bare"] / median(found["bare, alone"]), "bare requests, by one alone"),
            ),
        ],
    )


@contextmanager
def _kernels(lab: LabServer, count: int) -> Iterator[dict[str, BareKernel]]:
    """Kernels with the extension loaded, by their ids."""
    with ExitStack() as stack:
        ids = [str(lab.api("POST", "api/kernels", {"name": "python3"})["id"]) for _ in range(count)]
        kernels = {kernel_id: stack.enter_context(bare_kernel(lab, kernel_id)) for kernel_id in ids}
        for kernel in kernels.values():
            kernel.execute(LOAD)
        yield kernels


def _approvals(lab: LabServer, kernels: Sequence[str], calls: int, people: ThreadPoolExecutor) -> list[float]:
    """Milliseconds from each approval to its call's first line."""
    sent: dict[str, float] = {}

    def approve(approval_id: str) -> None:
        sent[approval_id] = time.time_ns() / 1e6
        lab.api("POST", f"agent-kernel/api/approvals/{approval_id}", {"approved": True})

    begun = [_begin(lab, kernel_id) for kernel_id in kernels]
    for _ in range(calls):
        list(people.map(approve, _waiting(lab, len(kernels), sent)))
    ended = [wait_until(lambda address=address: _ended(lab, address), "the end of a run", 60) for address in begun]
    done = [call for conversation in ended for call in conversation["tool_calls"]]
    return [_printed(call) - sent[call["approval_id"]] for call in done]


def _begin(lab: LabServer, kernel_id: str) -> str:
    """A run in a conversation of its own; the conversation's address."""
    conversation = lab.api("POST", "agent-kernel/api/conversations", {"kernel_id": kernel_id})
    address = f"agent-kernel/api/conversations/{conversation['conversation_id']}"
    lab.api("POST", f"{address}/runs", {"content": "Tell the time."})
    return address


def _waiting(lab: LabServer, count: int, decided: dict[str, float]) -> list[str]:
    """The approvals that as many calls wait for, once they all do."""

    def look() -> list[str]:
        calls = lab.api("GET", "agent-kernel/api/approvals?state=awaiting_approval")
        waiting = [call["approval_id"] for call in calls if call["approval_id"] not in decided]
        return waiting if len(waiting) >= count else []

    return wait_until(look, f"{count} approvals", 60)


def _ended(lab: LabServer, address: str) -> dict[str, Any] | None:
    conversation: dict[str, Any] = lab.api("GET", address)
    return conversation if conversation["runs"][-1]["ended_at"] else None


def _printed(call: dict[str, Any]) -> float:
    return int("".join(output["text"] for output in call["outputs"])) / 1e6


def _clocks(kernels: Sequence[BareKernel], times: int, people: ThreadPoolExecutor) -> list[float]:
    """Milliseconds from a bare request to its first line, in all kernels at once."""
    return [took for _ in range(times) for took in people.map(BareKernel.clock, kernels)]
