"""One life of a runtime, in a process of its own, driven over a pipe until it ends or is killed.

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
from agent_kernel.models.resolver import ModelResolver
from agent_kernel.protocol.calls import ApprovedCall, Outcome, ToolVerdict
from agent_kernel.protocol.commands import Decision, ToolContinueCommand, ToolRetryCommand
from agent_kernel.protocol.views import OutputView
from agent_kernel.runtime.clients.dispatch import handle_command
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.runs.queue import RunHandle
from agent_kernel.runtime.runtime import Runtime
from agent_kernel.runtime.settings import RunSpec, RuntimeSettings
from agent_kernel.tools.declaration import ToolDeclaration
from agent_kernel.tools.executor import OutputSink, ToolExecutor
from tests.core.runtime.runtime_fixtures import FunctionExecutor

CONVERSATION = "conv_faults"
CLIENT_SECONDS = 60.0
"""Where a page shows the conversation: it has come long before this time is over."""
APPEND = ToolDeclaration(
    "append",
    "Append a mark to the counter file.",
    {"type": "object", "properties": {"mark": {"type": "string"}}, "required": ["mark"], "additionalProperties": False},
)


@dataclass(frozen=True)
class Setup:
    """What a life is given. `after_seq` is where its client left off."""

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


class CounterExecutor(FunctionExecutor):
    """Its every act is a line in a file that outlives the process."""

    def __init__(self, setup: Setup) -> None:
        super().__init__()
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

    async def tool_verdict(self, tool_name: str, arguments_json: str) -> ToolVerdict:
        return ToolVerdict("ask")


class Life:
    def __init__(self, pipe: Connection, setup: Setup, runtime: Runtime, executor: CounterExecutor) -> None:
        self._pipe = pipe
        self._setup = setup
        self._runtime = runtime
        self._executor = executor
        self._quit = asyncio.Event()

    async def run(self) -> None:
        setup = self._setup

        async def executor_for(_: Conversation, __: RunSpec) -> ToolExecutor | None:
            return self._executor if setup.kernel_there else None

        recovered = await self._runtime.recover(executor_for)
        conversation = await self._runtime.create_conversation(kernel_id="k", conversation_id=CONVERSATION)
        subscription = conversation.subscribe(setup.after_seq)
        if setup.watched:
            conversation.client_came()
        self._pipe.send(("ready", (await conversation.view()).model_dump(mode="json")))
        async with asyncio.TaskGroup() as group:

            def read() -> None:
                try:
                    command = self._pipe.recv()
                except EOFError:
                    self._quit.set()
                    return
                group.create_task(self._handle_command(conversation, *command))

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
        await self._runtime.aclose()

    async def _await_end(self, handle: RunHandle) -> None:
        result = await handle.wait()
        self._pipe.send(("ended", handle.run_id, result.run.status))

    async def _handle_command(self, conversation: Conversation, verb: str, *rest: Any) -> None:
        if verb == "quit":
            self._quit.set()
        elif verb == "start":
            run_id, prompt, policy = rest
            spec = RunSpec(run_id=run_id, prompt=prompt, tools=(APPEND,), policy=policy)
            await self._await_end(await conversation.start_run(spec, self._executor))
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
                await conversation.route_decision(key, Decision.model_validate(decision), decided_by="somebody")
            case "message":
                await conversation.send_message(key)
            case "cancel_call":
                await conversation.cancel_call(key)
            case "tool_retry":
                await handle_command(ToolRetryCommand(tool_call_id=key), conversation, "somebody")
            case "tool_continue":
                await handle_command(ToolContinueCommand(tool_call_id=key), conversation, "somebody")
            case _:
                raise AssertionError(verb)


async def _live(pipe: Connection, setup: Setup) -> None:
    os.environ.update(setup.environment)
    settings = RuntimeSettings(
        token_flush_seconds=0.002,
        output_directory=setup.counter.parent,
        client_seconds=CLIENT_SECONDS if setup.watched else 0.0,
    )
    runtime = await Runtime.open(setup.log_path, ModelResolver(environ=os.environ), settings)
    await Life(pipe, setup, runtime, CounterExecutor(setup)).run()


def main(pipe: Connection, setup: Setup) -> None:
    """The body of the process."""
    asyncio.run(_live(pipe, setup))
