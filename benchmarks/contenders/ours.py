"""Agent Kernel: a `Runtime` with its log on disk, and an executor that runs the tool in this process.

As in the server, a client reads every frame of a run, and the audit trail has its listener.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import orjson
from jupyter_events import EventLogger

from agent_kernel.models.endpoints import Endpoint
from agent_kernel.models.resolver import ModelResolver, warm_up
from agent_kernel.protocol.calls import ApprovedCall, Outcome, Place, ToolVerdict
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.ids import new_run_id
from agent_kernel.protocol.kernel import EnvironmentDescribed, Mention
from agent_kernel.protocol.vocabulary import BudgetLimits
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.runs.queue import RunHandle
from agent_kernel.runtime.runtime import Runtime
from agent_kernel.runtime.settings import RunSpec, RuntimeSettings
from agent_kernel.tools.declaration import ToolDeclaration
from agent_kernel.tools.executor import OutputSink
from agent_kernel_server.event_log import emitter
from benchmarks.contenders.base import PROBE_SCHEMA, Contender, probe, user_text

ASKED = ToolDeclaration("probe", "Probe the thing numbered x.", PROBE_SCHEMA, approval="ask")
ALLOWED = ToolDeclaration("probe", "Probe the thing numbered x.", PROBE_SCHEMA, approval="allow")


class ProbeExecutor:
    async def execute(self, call: ApprovedCall, emit: OutputSink) -> Outcome:  # noqa: ARG002
        return Outcome("success", await probe(**orjson.loads(call.arguments_json)))

    async def interrupt(self, approval_id: str) -> bool:  # noqa: ARG002
        return False

    async def tool_verdict(self, tool_name: str, arguments_json: str) -> ToolVerdict:  # noqa: ARG002
        return ToolVerdict("ask")

    async def state_version(self) -> str | None:
        return None

    async def waiting_behind(self, approval_id: str) -> int | None:  # noqa: ARG002
        return None

    async def undo(self, approval_id: str) -> None:
        """Do nothing: no call can be undone."""

    async def preview(self, tool_name: str, arguments_json: str, place: Place | None) -> str | None:  # noqa: ARG002
        return None

    async def read_mentions(self, names: Sequence[str]) -> tuple[Mention, ...]:  # noqa: ARG002
        return ()

    async def describe_environment(self) -> EnvironmentDescribed:
        return EnvironmentDescribed()


class Reader:
    """A connected client: gets every frame, as the WebSocket would."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._frames = conversation.subscribe()
        self._last_seq: int | None = None
        self.characters = 0

    async def until_approval(self) -> str:
        """The approval that the run waits for. The client leaves then, as create_agent's reader has left."""
        async for frame in self._frames:
            self._read(frame)
            if '"type":"approval_request"' in frame:
                self._frames.close()
                approval_id: str = orjson.loads(frame)["approval_id"]
                return approval_id
        raise AssertionError("the run asked for nothing")

    async def until_end(self, handle: RunHandle) -> None:
        """Read on until the run has ended and its last frame is here."""
        reading = asyncio.create_task(self._read_all())
        await handle.wait()
        self._last_seq = self._conversation.last_seq
        if self._frames.cursor >= self._last_seq:
            self._frames.close()
        await reading

    async def _read_all(self) -> None:
        async for frame in self._frames:
            self._read(frame)
            if self._last_seq is not None and self._frames.cursor >= self._last_seq:
                self._frames.close()

    def _read(self, frame: str) -> None:
        if '"type":"token"' in frame:
            self.characters += len(orjson.loads(frame)["content"])


class AgentKernel(Contender):
    def __init__(self, base_url: str, directory: Path) -> None:
        super().__init__(base_url, directory)
        self._settings = RuntimeSettings(default_budget=BudgetLimits(), pause_at_repeats=False)
        self._conversations: dict[str, Conversation] = {}
        self._grown: dict[int, Conversation] = {}
        self._paused: dict[str, tuple[Conversation, str, RunHandle]] = {}
        self._executor = ProbeExecutor()

    async def open(self) -> None:
        endpoint = Endpoint("bench", self.base_url, api_key=lambda: "none", api="chat")
        await asyncio.to_thread(warm_up)
        self._models = ModelResolver(endpoints=[endpoint])
        self.runtime = await Runtime.open(self.directory / "log.sqlite", self._models, self._settings)
        self.runtime.listen_to_audit(emitter(EventLogger()))

    async def close(self) -> None:
        await self.runtime.aclose()
        await self._models.aclose()

    async def _start(self, conversation: Conversation, model: str, tool: ToolDeclaration, prompt: str) -> RunHandle:
        spec = RunSpec(run_id=new_run_id(), prompt=prompt, model=model, tools=(tool,))
        return await conversation.start_run(spec, self._executor)

    async def _run(self, conversation: Conversation, model: str, prompt: str) -> int:
        """Run to the end; how many characters of text the client got."""
        reader = Reader(conversation)
        await reader.until_end(await self._start(conversation, model, ALLOWED, prompt))
        return reader.characters

    async def answer(self, model: str) -> int:
        return await self._run(await self.runtime.create_conversation(), model, "Go")

    async def steps(self, model: str) -> None:
        await self._run(await self.runtime.create_conversation(), model, "Go")

    async def turn(self, conversation: str, model: str) -> None:
        if conversation not in self._conversations:
            self._conversations[conversation] = await self.runtime.create_conversation()
        await self._run(self._conversations[conversation], model, user_text())

    async def _with_history(self, messages: int) -> Conversation:
        """A new conversation, or the one that was grown to this length, turn by turn."""
        if messages == 0:
            return await self.runtime.create_conversation()
        if messages not in self._grown:
            name = f"grown to {messages}"
            for _ in range(messages // 4):
                await self.turn(name, "turn")
            self._grown[messages] = self._conversations[name]
        return self._grown[messages]

    async def pause(self, conversation: str, model: str, messages: int, prompt: str | None = None) -> None:
        place = await self._with_history(messages)
        reader = Reader(place)
        handle = await self._start(place, model, ASKED, prompt or user_text())
        self._paused[conversation] = (place, await reader.until_approval(), handle)

    async def approve(self, conversation: str) -> None:
        place, approval_id, handle = self._paused.pop(conversation)
        reader = Reader(place)
        await place.route_decision(approval_id, Decision(approved=True))
        await reader.until_end(handle)
