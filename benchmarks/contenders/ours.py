"""Agent Kernel: a `Runtime` with its log on disk, and an executor that runs the tool in this process."""

import asyncio
from pathlib import Path
from typing import Any

import orjson

from agent_kernel.models.endpoints import Endpoint
from agent_kernel.models.resolver import ModelResolver, warm_up
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.ids import new_run_id
from agent_kernel.protocol.views import BudgetLimits, Place
from agent_kernel.protocol.vocabulary import ApiName
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.runs.queue import RunHandle
from agent_kernel.runtime.runtime import Runtime
from agent_kernel.runtime.settings import RunSpec, RuntimeSettings
from agent_kernel.tools.declaration import ToolDeclaration
from agent_kernel.tools.executor import ApprovedCall, Outcome, OutputSink, ToolVerdict
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

    async def waiting_behind(self, approval_id: str) -> int | None:  # noqa: ARG002
        return None

    async def undo(self, approval_id: str) -> None:
        """Do nothing: no call can be undone."""

    async def preview(self, tool_name: str, arguments_json: str, place: Place | None) -> str | None:  # noqa: ARG002
        return None

    async def describe_environment(self) -> str:
        return ""


class AgentKernel(Contender):
    def __init__(self, base_url: str, directory: Path, api: ApiName = "chat", **settings: Any) -> None:
        """`api` is the model's API. `settings` are the runtime's, such as when a waiting run is suspended."""
        super().__init__(base_url, directory)
        self._api: ApiName = api
        self._settings = RuntimeSettings(default_budget=BudgetLimits(), pause_at_repeats=False, **settings)
        self._suspends = "suspend_seconds" in settings
        self._conversations: dict[str, Conversation] = {}
        self._grown: dict[int, Conversation] = {}
        self._paused: dict[str, tuple[Conversation, str, RunHandle]] = {}
        self._executor = ProbeExecutor()

    async def open(self) -> None:
        endpoint = Endpoint("bench", self.base_url, api_key=lambda: "none", api=self._api)
        await asyncio.to_thread(warm_up)
        self._models = ModelResolver(endpoints=[endpoint])
        self.runtime = await Runtime.open(self.directory / "log.sqlite", self._models, self._settings)

    async def close(self) -> None:
        await self.runtime.aclose()
        await self._models.aclose()

    async def _start(self, conversation: Conversation, model: str, tool: ToolDeclaration, prompt: str) -> RunHandle:
        spec = RunSpec(run_id=new_run_id(), prompt=prompt, model=model, tools=(tool,))
        return await conversation.start_run(spec, self._executor)

    async def answer(self, model: str) -> int:
        """Read the frames as the WebSocket would."""
        conversation = await self.runtime.create_conversation()
        frames = conversation.subscribe(0)
        received = 0

        async def read() -> None:
            nonlocal received
            async for frame in frames:
                if '"type":"token"' in frame:
                    received += len(orjson.loads(frame)["content"])
                elif '"type":"complete"' in frame:
                    return

        reader = asyncio.create_task(read())
        handle = await self._start(conversation, model, ALLOWED, "Go")
        await handle.wait()
        await reader
        frames.close()
        return received

    async def steps(self, model: str) -> None:
        conversation = await self.runtime.create_conversation()
        await (await self._start(conversation, model, ALLOWED, "Go")).wait()

    async def turn(self, conversation: str, model: str) -> None:
        if conversation not in self._conversations:
            self._conversations[conversation] = await self.runtime.create_conversation()
        handle = await self._start(self._conversations[conversation], model, ALLOWED, user_text())
        await handle.wait()

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

    async def pause(self, conversation: str, model: str, messages: int) -> None:
        place = await self._with_history(messages)
        frames = place.subscribe()
        handle = await self._start(place, model, ASKED, user_text())
        async for frame in frames:
            if '"type":"approval_request"' in frame:
                self._paused[conversation] = (place, orjson.loads(frame)["approval_id"], handle)
                break
        frames.close()

    async def settle(self) -> None:
        while self._suspends and (  # noqa: ASYNC110 (suspending is silent)
            sum(place.in_memory for place, _, _ in self._paused.values()) > self._settings.runs_in_memory
        ):
            await asyncio.sleep(0.01)

    async def approve(self, conversation: str) -> None:
        place, approval_id, handle = self._paused.pop(conversation)
        await place.route_decision(approval_id, Decision(approved=True))
        await handle.wait()
