"""pydantic-ai, with its messages as JSON in SQLite."""

from pathlib import Path
from typing import Any

from pydantic_ai import Agent, AgentRunResultEvent, DeferredToolRequests, DeferredToolResults, Tool
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits

from benchmarks.contenders.base import Contender, history, open_database, probe


class PydanticAI(Contender):
    def __init__(self, base_url: str, directory: Path) -> None:
        super().__init__(base_url, directory)
        self._agents: dict[tuple[str, bool], Any] = {}
        self._paused: dict[str, tuple[str, list[str]]] = {}

    async def open(self) -> None:
        self._provider = OpenAIProvider(base_url=self.base_url, api_key="none")
        self._sql = open_database(self.directory / "messages.sqlite")
        self._sql.execute("CREATE TABLE messages (conversation TEXT PRIMARY KEY, body BLOB)")

    def _agent(self, model: str, *, asks: bool) -> Any:
        if (model, asks) not in self._agents:
            self._agents[model, asks] = Agent(
                OpenAIChatModel(model, provider=self._provider),
                tools=[Tool(probe, requires_approval=asks)],
                output_type=[str, DeferredToolRequests] if asks else str,
            )
        return self._agents[model, asks]

    async def _to_end(self, agent: Any, prompt: str | None = None, **options: Any) -> tuple[int, Any]:
        """The number of characters received, and the result."""
        received, result = 0, None
        limits = UsageLimits(request_limit=None)
        async with agent.run_stream_events(prompt, usage_limits=limits, **options) as events:
            async for event in events:
                match event:
                    case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                        received += len(text)
                    case PartStartEvent(part=TextPart(content=text)):
                        received += len(text)
                    case AgentRunResultEvent():
                        result = event.result
        return received, result

    async def answer(self, model: str) -> int:
        return (await self._to_end(self._agent(model, asks=False), "Go"))[0]

    async def steps(self, model: str) -> None:
        _, result = await self._to_end(self._agent(model, asks=False), "Go")
        self._save("steps", result)

    def _save(self, conversation: str, result: Any) -> None:
        self._sql.execute("REPLACE INTO messages VALUES (?, ?)", (conversation, result.all_messages_json()))

    async def pause(self, conversation: str, model: str, messages: int, prompt: str | None = None) -> None:
        before = [_message(message) for message in history(messages, prompt)]
        _, result = await self._to_end(self._agent(model, asks=True), None, message_history=before)
        self._save(conversation, result)
        self._paused[conversation] = (model, [call.tool_call_id for call in result.output.approvals])

    async def approve(self, conversation: str) -> None:
        model, calls = self._paused.pop(conversation)
        (body,) = self._sql.execute("SELECT body FROM messages WHERE conversation = ?", (conversation,)).fetchone()
        await self._to_end(
            self._agent(model, asks=True),
            message_history=ModelMessagesTypeAdapter.validate_json(body),
            deferred_tool_results=DeferredToolResults(approvals=dict.fromkeys(calls, True)),
        )


def _message(message: dict[str, Any]) -> ModelMessage:
    match message:
        case {"role": "user", "content": content}:
            return ModelRequest(parts=[UserPromptPart(content=content)])
        case {"role": "tool", "content": content, "tool_call_id": call_id}:
            return ModelRequest(parts=[ToolReturnPart(tool_name="probe", content=content, tool_call_id=call_id)])
        case {"tool_calls": [call]}:
            return ModelResponse(parts=[ToolCallPart(tool_name="probe", args='{"x":1}', tool_call_id=call["id"])])
        case _:
            return ModelResponse(parts=[TextPart(content=message["content"])])
