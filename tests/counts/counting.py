"""A runtime whose log is measured, and a model that costs nothing."""

import sqlite3
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

from agent_kernel.log.store import Log
from agent_kernel.models.base import (
    Model,
    ModelFacts,
    ModelItem,
    ModelRequest,
    ModelTurn,
    RequestedCall,
    TextDelta,
    TokenUsage,
)
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.events import server_event_adapter
from agent_kernel.protocol.ids import new_run_id
from agent_kernel.protocol.vocabulary import Approval
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.runtime import Runtime
from agent_kernel.runtime.settings import RunSpec, RuntimeSettings
from agent_kernel.runtime.state.active_run import Resources
from agent_kernel.runtime.tasks import TaskOwner
from agent_kernel.tools.declaration import ToolDeclaration
from tests.core.runtime.runtime_fixtures import FunctionExecutor


class CountedModel:
    """Asks for `calls` calls, one after another, then answers in `tokens` pieces that come at once."""

    name = "counted"
    recorded = False
    usage = TokenUsage()
    facts = ModelFacts("counted", "http://localhost:11434/v1", server="Ollama")

    def __init__(self, calls: int = 0, tokens: int = 10) -> None:
        self.calls = calls
        self.tokens = tokens

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
        made = 0
        for message in reversed(request.messages):
            if message["role"] == "user":
                break
            made += message["role"] == "tool"
        if made < self.calls:
            yield ModelTurn(content="", tool_calls=(RequestedCall("", "probe", "{}"),), usage=self.usage)
            return
        for number in range(self.tokens):
            yield TextDelta(f"{number:04d} ")
        yield ModelTurn(content="".join(f"{number:04d} " for number in range(self.tokens)), usage=self.usage)

    async def aclose(self) -> None:
        """Nothing is open."""

    def resolve(self, name: str | None, notebook_path: str | None = None) -> Model:
        return self

    def secrets(self) -> tuple[str, ...]:
        return ()


class CountedRuntime:
    """One conversation, and the size of its log."""

    def __init__(self, runtime: Runtime, log: Log, conversation: Conversation) -> None:
        self.runtime = runtime
        self.log = log
        self.conversation = conversation
        results = count(1)  # the same result three times would pause a run
        self.executor = FunctionExecutor(act=lambda call, emit: f"{next(results)}")

    @classmethod
    async def open(cls, path: Path, model: CountedModel, **settings: Any) -> "CountedRuntime":
        log = await Log.open(path)
        runtime = Runtime(Resources(log, model, RuntimeSettings(**settings), attended=True, tasks=TaskOwner()))
        runtime.listen_to_audit(lambda _: None)  # as a server does
        return cls(runtime, log, await runtime.create_conversation())

    async def run(self, approval: Approval = "allow") -> None:
        """One run to its end; `approval` is the tool's. A call that asks is approved."""
        probe = ToolDeclaration("probe", "Probe.", {"type": "object", "properties": {}}, approval=approval)
        spec = RunSpec(run_id=new_run_id(), prompt="Go on.", tools=(probe,))
        frames = self.conversation.subscribe()
        handle = await self.conversation.start_run(spec, self.executor)
        async for frame in frames:
            event = server_event_adapter.validate_json(frame)
            if event.type == "approval_request":
                await self.conversation.route_decision(event.approval_id, Decision(approved=True))
            elif event.type == "complete":
                break
        frames.close()
        await handle.wait()

    async def bytes(self) -> int:
        """The pages of the log."""

        def pages(sql: sqlite3.Connection) -> int:
            (count,) = sql.execute("PRAGMA page_count").fetchone()
            (size,) = sql.execute("PRAGMA page_size").fetchone()
            return int(count * size)

        return await self.log.read(pages)
