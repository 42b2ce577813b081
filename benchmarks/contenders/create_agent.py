"""LangChain's `create_agent` with human-in-the-loop middleware, its state checkpointed to SQLite."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from langchain.agents import create_agent  # noqa: TID251 (this is the peer)
from langchain.agents.middleware import HumanInTheLoopMiddleware  # noqa: TID251
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command

from benchmarks.contenders.base import Contender, history, probe, user_text


class CreateAgent(Contender):
    def __init__(self, base_url: str, directory: Path) -> None:
        super().__init__(base_url, directory)
        self._agents: dict[tuple[str, bool], Any] = {}
        self._paused: dict[str, str] = {}
        self._fresh = 0

    async def open(self) -> None:
        self._saver_context = AsyncSqliteSaver.from_conn_string(str(self.directory / "checkpoints.sqlite"))
        self._saver = await self._saver_context.__aenter__()

    async def close(self) -> None:
        await self._saver_context.__aexit__(None, None, None)

    def _agent(self, model: str, *, asks: bool) -> Any:
        """The agent, always with the middleware, as in a product that can ask."""
        if (model, asks) not in self._agents:
            chat = ChatOpenAI(model=model, base_url=self.base_url, api_key="none", max_retries=0, streaming=True)
            gate = HumanInTheLoopMiddleware(interrupt_on={"probe": True} if asks else {"another": True})
            self._agents[model, asks] = create_agent(
                chat, tools=[tool(probe)], middleware=[gate], checkpointer=self._saver
            )
        return self._agents[model, asks]

    def _config(self, conversation: str) -> dict[str, Any]:
        return {"configurable": {"thread_id": conversation}, "recursion_limit": 10_000}

    async def _texts(self, agent: Any, request: Any, conversation: str) -> AsyncIterator[str]:
        async for chunk, _ in agent.astream(request, self._config(conversation), stream_mode="messages"):
            if type(chunk).__name__ == "AIMessageChunk" and chunk.content:
                yield chunk.content

    async def _to_end(self, agent: Any, request: Any, conversation: str) -> int:
        return sum([len(text) async for text in self._texts(agent, request, conversation)])

    async def answer(self, model: str) -> int:
        self._fresh += 1
        return await self._to_end(self._agent(model, asks=False), _prompt("Go"), f"answer {self._fresh}")

    async def steps(self, model: str) -> None:
        self._fresh += 1
        await self._to_end(self._agent(model, asks=False), _prompt("Go"), f"steps {self._fresh}")

    async def turn(self, conversation: str, model: str) -> None:
        await self._to_end(self._agent(model, asks=False), _prompt(user_text()), conversation)

    async def pause(self, conversation: str, model: str, messages: int, prompt: str | None = None) -> None:
        await self._to_end(self._agent(model, asks=True), {"messages": history(messages, prompt)}, conversation)
        self._paused[conversation] = model

    async def approve(self, conversation: str) -> None:
        agent = self._agent(self._paused.pop(conversation), asks=True)
        await self._to_end(agent, Command(resume={"decisions": [{"type": "approve"}]}), conversation)


def _prompt(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}
