"""The OpenAI Agents SDK, with the state of a paused run as text in SQLite."""

from pathlib import Path
from typing import Any

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    RunConfig,
    Runner,
    RunState,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

from benchmarks.contenders.base import Contender, history, open_database, probe


class OpenAIAgents(Contender):
    def __init__(self, base_url: str, directory: Path) -> None:
        super().__init__(base_url, directory)
        self._agents: dict[tuple[str, bool], Any] = {}
        self._paused: dict[str, str] = {}
        self._config = RunConfig(tracing_disabled=True)

    async def open(self) -> None:
        set_tracing_disabled(True)
        self._openai = AsyncOpenAI(base_url=self.base_url, api_key="none", max_retries=0)
        self._sql = open_database(self.directory / "states.sqlite")
        self._sql.execute("CREATE TABLE states (conversation TEXT PRIMARY KEY, body TEXT)")

    async def close(self) -> None:
        await self._openai.close()

    def _agent(self, model: str, *, asks: bool) -> Any:
        if (model, asks) not in self._agents:
            self._agents[model, asks] = Agent(
                name="bench",
                model=OpenAIChatCompletionsModel(model, self._openai),
                tools=[function_tool(probe, needs_approval=asks)],
            )
        return self._agents[model, asks]

    async def _to_end(self, agent: Any, request: Any) -> tuple[int, Any]:
        """The number of characters received, and the run."""
        received = 0
        run = Runner.run_streamed(agent, request, run_config=self._config, max_turns=10_000)
        async for event in run.stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                received += len(event.data.delta)
        return received, run

    async def answer(self, model: str) -> int:
        return (await self._to_end(self._agent(model, asks=False), "Go"))[0]

    async def steps(self, model: str) -> None:
        await self._to_end(self._agent(model, asks=False), "Go")

    async def pause(self, conversation: str, model: str, messages: int, prompt: str | None = None) -> None:
        request = [_item(message) for message in history(messages, prompt)]
        _, run = await self._to_end(self._agent(model, asks=True), request)
        self._sql.execute("REPLACE INTO states VALUES (?, ?)", (conversation, run.to_state().to_string()))
        self._paused[conversation] = model

    async def approve(self, conversation: str) -> None:
        agent = self._agent(self._paused.pop(conversation), asks=True)
        (text,) = self._sql.execute("SELECT body FROM states WHERE conversation = ?", (conversation,)).fetchone()
        state = await RunState.from_string(agent, text)
        for call in state.get_interruptions():
            state.approve(call)
        await self._to_end(agent, state)


def _item(message: dict[str, Any]) -> dict[str, Any]:
    match message:
        case {"role": "tool", "content": content, "tool_call_id": call_id}:
            return {"type": "function_call_output", "call_id": call_id, "output": content}
        case {"tool_calls": [call]}:
            return {"type": "function_call", "call_id": call["id"], "name": "probe", "arguments": '{"x":1}'}
        case {"role": "assistant", "content": content}:
            text = {"type": "output_text", "text": content, "annotations": []}
            return {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [text]}
        case _:
            return message
