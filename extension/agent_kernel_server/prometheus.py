"""The measures of this process at Jupyter Server's own `/metrics`: see docs/measures.md.

The metrics are made once for a process, in the registry that Jupyter Server shows. Labels are words of closed sets and
names of built-in tools; of models the first `MOST_MODELS` names. Nothing is read when they are asked for.
"""

from collections.abc import Sequence
from typing import assert_never
from weakref import WeakSet

from prometheus_client import Counter, Gauge, Histogram

from agent_kernel.log.measures import UNKNOWN_TOOL, CallMeasure, Measure, RunMeasure, Turn
from agent_kernel.runtime.runtime import Runtime
from agent_kernel.tools.builtin.declarations import BUILTIN_TOOLS
from agent_kernel.tools.outcome_texts import outcome_status

MOST_MODELS = 50
_MODEL_CHARACTERS = 100
_OTHER_MODEL = "other"
_TOOLS = {UNKNOWN_TOOL, *(tool.name for tool in BUILTIN_TOOLS)}

CALLS = Counter(
    "agent_kernel_calls",
    "Tool calls that have ended; `decided_by` is empty if no one decided.",
    ["tool", "status", "decided_by"],
)
ERRORS = Counter("agent_kernel_call_errors", "Tool calls without a result, by the kind of error.", ["tool", "kind"])
CALL_SECONDS = Histogram(
    "agent_kernel_call_seconds",
    "How long calls ran.",
    ["tool"],
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800),
)
WAIT_SECONDS = Histogram(
    "agent_kernel_wait_seconds",
    "How long calls waited for a person, of those that asked.",
    ["tool"],
    buckets=(1, 5, 10, 30, 60, 300, 1800, 3600, 14400, 86400),
)
RESULT_BYTES = Histogram(
    "agent_kernel_result_bytes",
    "Sizes of results as the model is given them.",
    ["tool"],
    buckets=(100, 1_000, 10_000, 100_000, 1_000_000),
)
TRUNCATED = Counter("agent_kernel_truncated_results", "Results that were cut for the model.", ["tool"])
CACHE_HITS = Counter("agent_kernel_cache_hits", "Calls that got a stored outcome.", ["tool"])
TOKENS = Counter(
    "agent_kernel_tokens", "Tokens of models; cached is a part of input, reasoning of output.", ["model", "kind"]
)
COST = Counter("agent_kernel_cost_usd", "Cost of models where a price is known, in US dollars.", ["model"])
RUNS = Counter("agent_kernel_runs", "Runs that have ended.", ["status"])
FIRST_TOKEN = Histogram(
    "agent_kernel_first_token_seconds",
    "Time from a run's beginning to the first piece of an answer.",
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
)
OPEN_RUNS = Gauge("agent_kernel_open_runs", "Runs that are under way.")

_runtimes: WeakSet[Runtime] = WeakSet()
_models: set[str] = set()
OPEN_RUNS.set_function(lambda: sum(runtime.open_runs for runtime in list(_runtimes)))


def watch(runtime: Runtime) -> None:
    """Count what becomes of the calls, turns and runs of a runtime from now on."""
    _runtimes.add(runtime)
    runtime.listen_to_measures(_count)


def _count(measured: Sequence[Measure]) -> None:
    for one in measured:
        match one:
            case CallMeasure():
                _count_call(one)
            case Turn():
                _count_turn(one)
            case RunMeasure():
                RUNS.labels(one.status).inc()
                if one.first_token_ms is not None:
                    FIRST_TOKEN.observe(one.first_token_ms / 1000)
            case _:
                assert_never(one)


def _count_call(call: CallMeasure) -> None:
    tool = call.tool if call.tool in _TOOLS else "mcp" if call.of_server else "own"
    CALLS.labels(tool, outcome_status(call.outcome), call.decided_by or "").inc()
    if call.error is not None:
        ERRORS.labels(tool, call.error).inc()
    for histogram, value in (
        (WAIT_SECONDS, None if call.wait_ms is None else call.wait_ms / 1000),
        (CALL_SECONDS, None if call.call_ms is None else call.call_ms / 1000),
        (RESULT_BYTES, call.result_bytes),
    ):
        if value is not None:
            histogram.labels(tool).observe(value)
    TRUNCATED.labels(tool).inc(call.truncated)
    CACHE_HITS.labels(tool).inc(call.cached)


def _count_turn(turn: Turn) -> None:
    name = turn.model[:_MODEL_CHARACTERS]
    if len(_models) < MOST_MODELS:
        _models.add(name)
    model = name if name in _models else _OTHER_MODEL
    TOKENS.labels(model, "input").inc(turn.input_tokens)
    TOKENS.labels(model, "cached").inc(turn.cached_tokens)
    TOKENS.labels(model, "output").inc(turn.output_tokens)
    TOKENS.labels(model, "reasoning").inc(turn.reasoning_tokens)
    if turn.usd is not None:
        COST.labels(model).inc(float(turn.usd))
