"""All costs as a conversation or log grows, with the exponent of growth: 1 is linear."""

import asyncio
import math
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson

from agent_kernel.log import runs
from agent_kernel.log.event_rows import append_message
from agent_kernel.log.store import Log
from agent_kernel.log.transactions import Transaction
from agent_kernel.models.base import Model, ModelFacts, ModelItem, ModelRequest, ModelTurn, RequestedCall
from agent_kernel.models.endpoints import Endpoint
from agent_kernel.models.resolver import ModelResolver, warm_up
from agent_kernel.protocol.budgets import BudgetLimits
from agent_kernel.protocol.calls import ApprovedCall, Outcome
from agent_kernel.protocol.events import MessageEvent, RunEvent
from agent_kernel.protocol.ids import new_conversation_id, new_message_id, new_run_id
from agent_kernel.protocol.views import OutputView, PolicyView, RunView, Usage
from agent_kernel.record import render_record
from agent_kernel.runtime.clients.snapshot import session_frame
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.runs.specs import stored
from agent_kernel.runtime.runtime import Runtime
from agent_kernel.runtime.settings import RunSpec, RuntimeSettings
from agent_kernel.runtime.state.active_run import Commit
from agent_kernel.tools.executor import OutputSink
from benchmarks.contenders.base import history, prose, user_text
from benchmarks.contenders.ours import ALLOWED, ProbeExecutor
from benchmarks.frame import Figure, Goal, ModelServer, Report, Series, median

TURNS = (50, 100, 200, 400, 800)
CONVERSATIONS = (100, 1_000, 10_000)
UNFINISHED = 20
"""The runs that an earlier server left open among all conversations."""
PAGE = 50
SAMPLES = 5
"""Samples, of which the least counts, because other load only adds time."""
LINEAR = Goal(1.2, "linear: 1, and a fifth for noise")


class InstantModel:
    """Calls the tool once, then answers."""

    name = "instant"
    recorded = False
    facts = ModelFacts()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
        if request.messages[-1]["role"] == "tool":
            yield ModelTurn(content=prose(500))
        else:
            yield ModelTurn(content="", tool_calls=(RequestedCall("", "probe", '{"x":1}'),))

    async def aclose(self) -> None:
        """Do nothing: nothing is open."""

    def resolve(self, name: str | None, notebook_path: str | None = None) -> Model:  # noqa: ARG002
        return self

    def secrets(self) -> tuple[str, ...]:
        return ()


class PrintingExecutor(ProbeExecutor):
    """Prints what a call returns, so that there are live outputs as well."""

    async def execute(self, call: ApprovedCall, emit: OutputSink) -> Outcome:
        outcome = await super().execute(call, emit)
        emit(OutputView(kind="stream", name="stdout", text=outcome.content))
        return outcome


def run(rounds: int) -> Report:  # noqa: ARG001
    report = Report()
    with ModelServer() as server, tempfile.TemporaryDirectory() as directory:
        asyncio.run(_measure(report, server.url, Path(directory)))
    for series in report.series:
        report.figures.append(Figure(f"growth of {series.what}", exponent(series), "", LINEAR, _ends(series)))
    return report


def exponent(series: Series) -> float:
    """The slope over the last three sizes on logarithmic scales. At smaller sizes fixed costs and caches dominate."""
    (small, cheap), (large, dear) = ((series.sizes[place], series.costs[place]) for place in (-3, -1))
    return math.log(dear / cheap) / math.log(large / small)


def _ends(series: Series) -> dict[str, float]:
    return {
        f"{series.unit} at {size:,}": series.costs[place]
        for place, size in enumerate(series.sizes)
        if place in (0, len(series.sizes) - 1)
    }


async def _measure(report: Report, base_url: str, directory: Path) -> None:
    costs = await _conversation(directory / "conversation.sqlite")
    costs["a model request"] = await _requests(base_url)
    report.series += [Series(what, TURNS, found, "ms") for what, found in costs.items()]
    logs = [await _logged(directory / f"{count}.sqlite", count) for count in CONVERSATIONS]
    starts, lists, pages = zip(*logs, strict=True)
    report.series += [
        Series("server start, by conversations in the log", CONVERSATIONS, starts, "ms"),
        Series("the list of all conversations in the log", CONVERSATIONS, lists, "ms"),
        Series(f"{PAGE} of the conversations in the log", CONVERSATIONS, pages, "ms"),
    ]


async def _conversation(path: Path) -> dict[str, list[float]]:
    await asyncio.to_thread(warm_up)
    runtime = await Runtime.open(path, InstantModel(), RuntimeSettings())
    conversation = await runtime.create_conversation()
    costs: dict[str, list[float]] = {}
    done = 0
    for size in TURNS:
        took = [await _timed(lambda: _turn(conversation)) for _ in range(size - done)]
        done = size
        costs.setdefault("a turn in the loop and the log", []).append(median(took[-20:]))
        for what, measure in (
            ("a snapshot", lambda: _snapshot(conversation)),
            ("a resume from the start", lambda: _resume(conversation)),
            ("the static record of a run with so many calls", await _record(conversation)),
        ):
            costs.setdefault(what, []).append(min([await _timed(measure) for _ in range(SAMPLES)]))
    await runtime.aclose()
    return costs


async def _timed(work: Callable[[], Awaitable[object]]) -> float:
    begun = time.perf_counter()
    await work()
    return (time.perf_counter() - begun) * 1e3


async def _turn(conversation: Conversation) -> None:
    spec = RunSpec(run_id=new_run_id(), prompt=user_text(), tools=(ALLOWED,))
    await (await conversation.start_run(spec, PrintingExecutor())).wait()


async def _snapshot(conversation: Conversation) -> None:
    """Make a snapshot, as for a client that connects."""
    session_frame(await conversation.snapshot(), [])


async def _resume(conversation: Conversation) -> None:
    frames = conversation.subscribe(0)
    left = conversation.last_seq
    async for _ in frames:
        left -= 1
        if left == 0:
            break
    frames.close()


async def _record(conversation: Conversation) -> Callable[[], Awaitable[object]]:
    """The conversation's messages and calls as those of one run."""
    view = await conversation.view()
    run = view.runs[0]
    messages = [message.model_copy(update={"run_id": run.run_id}) for message in view.messages]
    calls = [call.model_copy(update={"run_id": run.run_id}) for call in view.tool_calls]

    async def render() -> None:
        render_record(run, messages, calls)

    return render


async def _requests(base_url: str) -> list[float]:
    models = ModelResolver(endpoints=[Endpoint("bench", base_url, api_key=lambda: "none")])
    model = models.resolve("text:20")
    took = []
    for size in TURNS:
        messages = history(4 * size)

        async def ask(messages: list[dict[str, Any]] = messages) -> None:
            async for _ in model.stream(ModelRequest(messages)):
                pass

        took.append(min([await _timed(ask) for _ in range(SAMPLES)]))
    await models.aclose()
    return took


async def _logged(path: Path, conversations: int) -> tuple[float, float, float]:
    """Milliseconds until a new runtime has recovered the open runs, for the list of all conversations, and for its last
    page."""
    log = await Log.open(path)
    every = conversations // UNFINISHED
    await log.write(lambda transaction: _fill(transaction, conversations, every))
    await log.aclose()
    begun = time.perf_counter()
    runtime = await Runtime.open(path, InstantModel())
    recovered = await runtime.recover(_no_executor)
    start = (time.perf_counter() - begun) * 1e3
    assert len(recovered.ended) == UNFINISHED
    listed = orjson.loads(await runtime.list_conversations())
    assert len(listed) == conversations
    last = listed[-1 - PAGE]["conversation_id"]
    whole = min([await _timed(runtime.list_conversations) for _ in range(SAMPLES)])
    page = min([await _timed(lambda: runtime.list_conversations(after=last, limit=PAGE)) for _ in range(SAMPLES)])
    await runtime.aclose()
    return start, whole, page


async def _no_executor(conversation: Conversation, spec: RunSpec) -> None:  # noqa: ARG001
    return None


def _fill(transaction: Transaction, conversations: int, every: int) -> None:
    """Make conversations of one run each, of which one in `every` is still open."""
    for number in range(conversations):
        row = runs.add_conversation(transaction.sql, new_conversation_id(), "kernel", None, "notebook.ipynb")
        spec = RunSpec(run_id=new_run_id(), prompt=user_text(), tools=(ALLOWED,))
        view = RunView(
            run_id=spec.run_id,
            conversation_id=row.conversation_id,
            prompt=spec.prompt,
            status="running" if number % every == 0 else "complete",
            model="instant",
            recorded=False,
            usage=Usage(),
            budget=BudgetLimits(),
            policy=PolicyView(mode="ask"),
            started_at="2026-01-01T00:00:00.000Z",
        )
        runs.add_run(transaction.sql, row.number, view, stored(spec))
        commit = Commit(transaction, row)
        message = new_message_id()
        append_message(commit.sql, commit.number, message, spec.run_id, {"role": "user", "content": spec.prompt})
        commit.emit(MessageEvent(run_id=spec.run_id, message_id=message, role="user", content=spec.prompt))
        commit.emit(RunEvent(run_id=spec.run_id, run=view))
