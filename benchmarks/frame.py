"""Shared parts of scenarios: contenders' processes, alternating rounds, and figures with goals."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from benchmarks.worker import PEER

ROOT = Path(__file__).parents[1]
PEERS_PYTHON = ROOT / ".cache" / "bench-peers" / "bin" / "python"
WITHOUT_PEERS = "AGENT_KERNEL_BENCH_WITHOUT_PEERS"
"""The environment variable that restricts measurements to the raw baselines."""
QUIET = {
    "LANGSMITH_TRACING": "false",
    "LANGCHAIN_TRACING_V2": "false",
    "OPENAI_API_KEY": "none",
}


class WorkerFailed(Exception):
    """A contender raised; the message is its traceback."""


class Skipped(Exception):
    """A scenario can't be measured on this machine; the message says why."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound on a figure; `what` says it in words."""

    limit: float
    what: str
    direction: Literal["at most", "at least"] = "at most"

    def met(self, value: float) -> bool:
        return value <= self.limit if self.direction == "at most" else value >= self.limit


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table."""

    what: str
    value: float
    unit: str
    goal: Goal | None = None
    beside: Mapping[str, float] = field(default_factory=dict)
    """The other contenders' figures, in the same unit."""

    @property
    def verdict(self) -> str:
        if self.goal is None:
            return ""
        return "met" if self.goal.met(self.value) else "missed"


@dataclass(slots=True)
class Report:
    """The results of one scenario."""

    figures: list[Figure] = field(default_factory=list)
    raw: dict[str, Any] = field(default_factory=dict)


def environment(**more: str) -> dict[str, str]:
    """The environment of child processes: byte code is cached, as for a user, and peers send no telemetry."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | QUIET | more


def has_peers() -> bool:
    return PEERS_PYTHON.exists() and WITHOUT_PEERS not in os.environ


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


class ModelServer:
    """The fake model, as a process of its own."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.model_server"],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment(),
        )
        assert self._process.stdout is not None
        self.address = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        self.url = f"{self.address}/v1"
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.communicate()

    def requests(self, count: int = 0, seconds: float = 10) -> list[dict[str, Any]]:
        """All requests so far, once there are so many. Not asked again and again: that would take processor time from
        what is measured. Raises `TimeoutError`."""
        with urllib.request.urlopen(f"{self.address}/requests/{count}", timeout=seconds) as response:
            listed: list[dict[str, Any]] = json.loads(response.read())
        return listed


class Worker:
    """A contender's process. `worker("answer", model="text:50")` returns what it measured."""

    def __init__(self, name: str, base_url: str) -> None:
        self.name = name
        self._directory = Path(tempfile.mkdtemp(prefix="agent-kernel-bench-"))
        python = PEERS_PYTHON if name == PEER else sys.executable
        self._process = subprocess.Popen(
            [str(python), "-m", "benchmarks.worker", name, base_url, str(self._directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment(),
        )
        self._read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def __call__(self, action: str, **arguments: Any) -> dict[str, Any]:
        """Send a command and return its result. Raises `WorkerFailed`."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": action, **arguments}) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        result: dict[str, Any] = json.loads(line) if line else {"error": "The process ended."}
        if "error" in result:
            raise WorkerFailed(f"{self.name}: {result['error']}")
        return result


@contextmanager
def workers(names: Sequence[str], base_url: str) -> Iterator[list[Worker]]:
    """A process for each contender that can be measured here."""
    with ExitStack() as stack:
        able = [name for name in names if name != PEER or has_peers()]
        yield [stack.enter_context(Worker(name, base_url)) for name in able]


def take_turns(
    contenders: Sequence[Worker], rounds: int, measure: Callable[[Worker], dict[str, Any]]
) -> dict[str, list[dict[str, Any]]]:
    """Run each contender once per round, so that slow periods affect all alike. The first round is a warm-up."""
    results: dict[str, list[dict[str, Any]]] = {worker.name: [] for worker in contenders}
    for number in range(rounds + 1):
        for worker in contenders:
            result = measure(worker)
            if number > 0:
                results[worker.name].append(result)
    return results


def medians(results: Mapping[str, Sequence[Mapping[str, Any]]], key: str, scale: float = 1.0) -> dict[str, float]:
    return {name: median([result[key] for result in found]) * scale for name, found in results.items()}


def ratio(found: Mapping[str, Sequence[Mapping[str, Any]]], one: str, other: str, key: str) -> float:
    """The median over rounds of the ratio of two contenders' figures."""
    return median([mine[key] / theirs[key] for mine, theirs in zip(found[one], found[other], strict=True)])
