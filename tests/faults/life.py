"""One life of a runtime, in a process of its own: with a person, who decides what is asked, until every run has ended
or the process kills itself at its moment.

What others know of it is written to a file as it comes: `{"view": …}` (the first snapshot), `{"frame": TEXT}`, and what
the runtime has acknowledged: `{"approved": approval_id}`, `{"answered": tool_call_id}`, `{"said": TEXT}`; and
`{"dead": …}`, a button that did nothing.
"""

import asyncio
import json
import os
import random
import signal
import threading
from collections.abc import Awaitable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agent_kernel.errors import AgentKernelError
from agent_kernel.models.resolver import ModelResolver
from agent_kernel.protocol.calls import ApprovedCall, Outcome, ToolVerdict
from agent_kernel.protocol.commands import Decision, ToolContinueCommand, ToolRetryCommand
from agent_kernel.protocol.views import OutputView
from agent_kernel.runtime.clients.dispatch import handle_command
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.runtime import Runtime
from agent_kernel.runtime.settings import RunSpec, RuntimeSettings
from agent_kernel.tools.declaration import ToolDeclaration
from agent_kernel.tools.executor import OutputSink, ToolExecutor
from tests.core.runtime.runtime_fixtures import FunctionExecutor
from tests.faults.checks import ENDED
from tests.faults.rounds import MOMENTS
from tests.waiting import look_until

CONVERSATION = "conv_faults"
CLIENT_SECONDS = 60.0
"""Where a page shows the conversation: it has come long before this time is over."""
KILLED_AT_LATEST = 3.0
APPEND = ToolDeclaration(
    "append",
    "Append a mark to the counter file.",
    {"type": "object", "properties": {"mark": {"type": "string"}}, "required": ["mark"], "additionalProperties": False},
)


@dataclass(frozen=True)
class Setup:
    """What a life is given."""

    log_path: Path
    counter: Path
    known: Path
    """What others know is appended here."""
    environment: dict[str, str]
    run_id: str
    """Of the run that is started where none goes on."""
    seed: int
    after_seq: int
    """Where its client left off."""
    moment: str | None
    """When it kills itself."""
    kernel_there: bool = True
    watched: bool = False
    """Whether a page shows the conversation, so that a person is asked about unknown outcomes."""
    call_is_long: bool = False
    """Longer than from the news that a call runs to the kill at the first such news."""


class CounterExecutor(FunctionExecutor):
    """Its every act is a line in a file that outlives the process."""

    def __init__(self, setup: Setup) -> None:
        super().__init__()
        self._counter = setup.counter
        self._random = random.Random(setup.seed)
        self._most = 0.1 if setup.call_is_long else 0.01

    async def execute(self, call: ApprovedCall, emit: OutputSink) -> Outcome:
        with self._counter.open("a", encoding="utf-8") as file:
            file.write(f"{json.loads(call.arguments_json)['mark']}\n")
        for number in range(2):
            await asyncio.sleep(self._random.uniform(self._most / 2, self._most))
            emit(OutputView(kind="stream", name="stdout", text=f"{number}\n"))
        return Outcome("success", "appended")

    async def interrupt(self, approval_id: str) -> bool:
        return False

    async def tool_verdict(self, tool_name: str, arguments_json: str) -> ToolVerdict:
        return ToolVerdict("ask")


class Life:
    def __init__(self, setup: Setup, runtime: Runtime) -> None:
        self._setup = setup
        self._runtime = runtime
        self._executor = CounterExecutor(setup)
        self._random = random.Random(setup.seed + 1)
        self._known = os.open(setup.known, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        self._said = 0
        self._acts: set[asyncio.Task[None]] = set()
        """What the person does at the moment."""
        self._left = 1 if setup.call_is_long else self._random.randrange(1, 4)
        """How many events of the moment's kind go by before the kill."""

    async def run(self) -> None:
        setup = self._setup

        async def executor_for(_: Conversation, __: RunSpec) -> ToolExecutor | None:
            return self._executor if setup.kernel_there else None

        await self._runtime.recover(executor_for)
        self._conversation = await self._runtime.create_conversation(kernel_id="k", conversation_id=CONVERSATION)
        subscription = self._conversation.subscribe(setup.after_seq)
        if setup.watched:
            self._conversation.client_came()
        view = (await self._conversation.view()).model_dump(mode="json")
        self._know("view", view)
        async with asyncio.TaskGroup() as self._group:

            async def show() -> None:
                async for text in subscription:
                    self._know("frame", text)
                    frame = json.loads(text)
                    if frame["seq"] > view["last_seq"]:  # of the past the snapshot says what is left
                        self._show(frame)

            self._group.create_task(show())
            self._look_at(view)
            if all(run["status"] in ENDED for run in view["runs"]):
                await (
                    self._start()
                )  # the first, or it was killed after its end: there is nothing left to see but another
            await look_until(self._all_has_ended, "the runs to end")
            subscription.close()
        await self._runtime.aclose()

    async def _all_has_ended(self) -> bool:
        return not self._acts and all(run.status in ENDED for run in (await self._conversation.view()).runs)

    def _know(self, kind: str, what: object) -> None:
        os.write(self._known, f"{json.dumps({kind: what})}\n".encode())

    async def _start(self) -> None:
        chance, run_id = self._random, self._setup.run_id
        plan = {"steps": [chance.randint(1, 3) for _ in range(chance.randint(1, 3))], "tool": "append"}
        prompt = f"Go on {run_id}: {json.dumps({**plan, 'pause': chance.choice([0, 0.001, 0.004])})}"
        spec = RunSpec(run_id=run_id, prompt=prompt, tools=(APPEND,))
        if self._setup.watched and chance.random() < 0.3:
            spec = replace(spec, policy="allow")
        await self._conversation.start_run(spec, self._executor)

    def _look_at(self, view: dict[str, Any]) -> None:
        """Decide what waits, and answer for calls whose outcome is unknown: Run again or Continue."""
        ongoing = {run["run_id"] for run in view["runs"] if run["status"] not in ENDED}
        for call in view["tool_calls"]:
            if call["state"] == "awaiting_approval":
                self._decide(call)
            elif self._setup.watched and call["run_id"] in ongoing and is_in_question(call):
                self._do(self._answer(call))

    def _show(self, frame: dict[str, Any]) -> None:
        moment, kind = self._setup.moment, frame["type"]
        if moment and kind in MOMENTS[moment]:
            self._left -= 1
            if self._left == 0:
                kill_within(self._random.choice([0, 0, 0.001, 0.003, 0.01]))
        if kind == "approval_request":
            self._decide(frame)
        elif kind == "tool_start" and self._random.random() < 0.1:
            self._said += 1
            text = f"By the way {self._setup.seed} {self._said}."
            self._do(self._act("message", self._conversation.send_message(text), said=text))

    def _decide(self, call: dict[str, Any]) -> None:
        chance, approval_id = self._random.random(), call["approval_id"]
        if self._setup.moment == "while an approval is pending":
            return
        if chance < 0.1:
            self._do(self._act("cancel", self._conversation.cancel_call(call["tool_call_id"])))
            return
        fields: dict[str, Any] = {"approved": chance < 0.85, "digest": call["digest"]}
        if 0.8 < chance < 0.85:
            fields = {"approved": True, "edited_input": {"mark": f"mark9{int(approval_id[-8:], 16)}"}}
        decided = self._conversation.route_decision(approval_id, Decision(**fields), decided_by="somebody")
        self._do(self._act("decision", decided, approved=approval_id))
        self._strike_at_decision()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._group.create_task(work)
        self._acts.add(task)
        task.add_done_callback(self._acts.discard)

    async def _answer(self, call: dict[str, Any]) -> None:
        await asyncio.sleep(self._random.choice([0, 0.01, 0.1]))
        name, again = call["tool_call_id"], self._random.random() < 0.5
        known = {"answered": name}
        if again:
            known["said"] = f"Try this call again: {call['tool_name']} with {call['tool_input']}"
        command = ToolRetryCommand(tool_call_id=name) if again else ToolContinueCommand(tool_call_id=name)
        self._strike_at_decision()
        await self._act("answer", handle_command(command, self._conversation, "somebody"), **known)

    def _strike_at_decision(self) -> None:
        if self._setup.moment == "as a decision is sent":
            kill_within(self._random.uniform(0.0, 0.006))

    async def _act(self, verb: str, work: Awaitable[object], **known: str) -> None:
        """Press a button that is there, and note what the runtime has acknowledged."""
        try:
            await work
        except AgentKernelError as refused:
            said = f"{verb} was offered, and met {type(refused).__name__}: {refused}"
            # A message supersedes calls in the same moment, and is a look at those whose outcome is unknown.
            late = "Already decided: superseded" in said or (self._said and "has answered" in said)
            if verb in ("decision", "answer") and not late:
                self._know("dead", said)
        else:
            for kind, what in known.items():
                self._know(kind, what)


def is_in_question(call: dict[str, Any]) -> bool:
    """Nobody knows whether it ran, and nobody has answered for it."""
    return call["state"] == "unknown" and call["unknown_answer"] is None


def kill_within(seconds: float) -> None:
    """From another thread, whatever this one does then."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL))
    timer.daemon = True
    timer.start()


async def _live(setup: Setup) -> None:
    os.environ.update(setup.environment)
    settings = RuntimeSettings(
        token_flush_seconds=0.002,
        output_directory=setup.counter.parent,
        client_seconds=CLIENT_SECONDS if setup.watched else 0.0,
    )
    runtime = await Runtime.open(setup.log_path, ModelResolver(environ=os.environ), settings)
    await Life(setup, runtime).run()


def main(setup: Setup) -> None:
    """The body of the process."""
    if setup.moment is not None:
        at_any_time = setup.moment == "at any time"
        kill_within(random.Random(setup.seed).uniform(0.0, 0.25) if at_any_time else KILLED_AT_LATEST)
    asyncio.run(_live(setup))
