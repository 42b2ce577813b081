"""One life of a brain, in a process of its own, driven over a pipe until it ends or is killed.

Up: `("ready", view)`, `("frame", text)`, `("reply", number, error or None)`, `("ended", run_id, status)`.
Down: `("start", run_id, prompt, policy)`, `("decide", number, approval_id, decision)`, `("message", number, text)`,
`("cancel_call", number, tool_call_id)`, `("tool_retry" or "tool_continue", number, tool_call_id, ...)`, `("quit",)`.
"""

import asyncio
import json
import os
import random
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from agent_kernel.errors import AgentKernelError
from agent_kernel.runtime.runtime import Brain
from agent_kernel.runtime.clients.commands import obey
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.runs.queue import RunHandle
from agent_kernel.runtime.settings import BrainSettings, RunSpec
from agent_kernel.models.resolver import ModelResolver
from agent_kernel.protocol.commands import Decision, ToolContinueCommand, ToolRetryCommand
from agent_kernel.protocol.views import OutputView
from agent_kernel.tools.declaration import ToolDeclaration
from agent_kernel.tools.executor import ApprovedCall, Hands, Outcome, OutputSink, ToolVerdict

CONVERSATION = "conv_faults"
FACE_SECONDS = 60.0
"""Where a page shows the conversation: it has come long before this time is over."""
APPEND = ToolDeclaration(
    "append",
    "Append a mark to the counter file.",
    {"type": "object", "properties": {"mark": {"type": "string"}}, "required": ["mark"], "additionalProperties": False},
)


@dataclass(frozen=True)
class Setup:
    """What a life is given. `after_seq` is where its face left off."""

    log_path: Path
    counter: Path
    environment: dict[str, str]
    seed: int
    after_seq: int = 0
    kernel_there: bool = True
    watched: bool = False
    """Whether a page shows the conversation."""
    call_seconds: float = 0.01
    """How long each of the two halves of a call takes, at most."""
    park_seconds: float = 10.0


class CounterHands:
    """Hands whose every act is a line in a file that outlives the process."""

    def __init__(self, setup: Setup) -> None:
        self._counter = setup.counter
        self._random = random.Random(setup.seed)
        self._most = setup.call_seconds

    async def execute(self, call: ApprovedCall, emit: OutputSink) -> Outcome:
        with self._counter.open("a", encoding="utf-8") as file:
            file.write(f"{json.loads(call.arguments_json)['mark']}\n")
        for number in range(2):
            await asyncio.sleep(self._random.uniform(self._most / 2, self._most))
            emit(OutputView(kind="stream", name="stdout", text=f"{number}\n"))
        return Outcome("success", "appended")

    async def interrupt(self, approval_id: str) -> bool:
        return False

    async def judge(self, tool_name: str, arguments_json: str) -> ToolVerdict:
        return ToolVerdict("ask")

    async def describe_environment(self) -> str:
        return ""


class Life:
    def __init__(self, pipe: Connection, setup: Setup, brain: Brain, hands: CounterHands) -> None:
        self._pipe = pipe
        self._setup = setup
        self._brain = brain
        self._hands = hands
        self._quit = asyncio.Event()

    async def run(self) -> None:
        setup = self._setup

        async def hands_for(_: Conversation, __: RunSpec) -> Hands | None:
            return self._hands if setup.kernel_there else None

        recovered = await self._brain.recover(hands_for)
        conversation = await self._brain.create_conversation(kernel_id="k", conversation_id=CONVERSATION)
        subscription = conversation.subscribe(setup.after_seq)
        if setup.watched:
            conversation.face_came()
        self._pipe.send(("ready", (await conversation.view()).model_dump(mode="json")))
        async with asyncio.TaskGroup() as group:

            def read() -> None:
                try:
                    command = self._pipe.recv()
                except EOFError:
                    self._quit.set()
                    return
                group.create_task(self._obey(conversation, *command))

            async def show() -> None:
                async for frame in subscription:
                    self._pipe.send(("frame", frame))

            group.create_task(show())
            for _, _, handle in recovered.continued:
                group.create_task(self._await_end(handle))
            asyncio.get_running_loop().add_reader(self._pipe.fileno(), read)
            await self._quit.wait()
            asyncio.get_running_loop().remove_reader(self._pipe.fileno())
            subscription.close()
        await self._brain.aclose()

    async def _await_end(self, handle: RunHandle) -> None:
        result = await handle.wait()
        self._pipe.send(("ended", handle.run_id, result.run.status))

    async def _obey(self, conversation: Conversation, verb: str, *rest: Any) -> None:
        if verb == "quit":
            self._quit.set()
        elif verb == "start":
            run_id, prompt, policy = rest
            spec = RunSpec(run_id=run_id, prompt=prompt, tools=(APPEND,), policy=policy)
            await self._await_end(await conversation.start_run(spec, self._hands))
        else:
            number, *arguments = rest
            error: str | None = None
            try:
                await self._act(conversation, verb, *arguments)
            except AgentKernelError as refused:
                error = f"{type(refused).__name__}: {refused}"
            self._pipe.send(("reply", number, error))

    async def _act(self, conversation: Conversation, verb: str, key: str, decision: Any = None) -> None:
        match verb:
            case "decide":
                await conversation.decide(key, Decision.model_validate(decision), decided_by="somebody")
            case "message":
                await conversation.send_message(key)
            case "cancel_call":
                await conversation.cancel_call(key)
            case "tool_retry":
                await obey(ToolRetryCommand(tool_call_id=key), conversation, "somebody")
            case "tool_continue":
                await obey(ToolContinueCommand(tool_call_id=key), conversation, "somebody")
            case _:
                raise AssertionError(verb)


async def _live(pipe: Connection, setup: Setup) -> None:
    os.environ.update(setup.environment)
    settings = BrainSettings(
        token_flush_seconds=0.002,
        output_directory=setup.counter.parent,
        face_seconds=FACE_SECONDS if setup.watched else 0.0,
        park_seconds=setup.park_seconds,
        runs_in_memory=0,
    )
    brain = await Brain.open(setup.log_path, ModelResolver.from_environment(), settings)
    await Life(pipe, setup, brain, CounterHands(setup)).run()


def main(pipe: Connection, setup: Setup) -> None:
    """The body of the process."""
    asyncio.run(_live(pipe, setup))
