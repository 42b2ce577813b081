"""The baseline: a hand-written loop over aiohttp, with its messages in memory."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from benchmarks.contenders.base import PROBE_WIRE, Contender, probe, user_text

Message = dict[str, Any]


class Raw(Contender):
    def __init__(self, base_url: str, directory: Path) -> None:
        super().__init__(base_url, directory)
        self._conversations: dict[str, list[Message]] = {}

    async def open(self) -> None:
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), read_bufsize=2**18)

    async def close(self) -> None:
        await self._session.close()

    async def _deltas(self, model: str, messages: list[Message]) -> AsyncIterator[Message]:
        rest = b""
        body = orjson.dumps({"model": model, "stream": True, "messages": messages, "tools": [PROBE_WIRE]})
        headers = {"content-type": "application/json"}
        async with self._session.post(f"{self.base_url}/chat/completions", data=body, headers=headers) as response:
            async for data in response.content.iter_any():
                *events, rest = (rest + data).split(b"\n\n")
                for event in events:
                    if event != b"data: [DONE]" and (choices := orjson.loads(event[6:])["choices"]):
                        yield choices[0]["delta"]

    async def answer(self, model: str) -> int:
        received = 0
        async for delta in self._deltas(model, [{"role": "user", "content": "Go"}]):
            received += len(delta.get("content", ""))
        return received

    async def _step(self, model: str, messages: list[Message]) -> Message:
        texts: list[str] = []
        calls: list[Message] = []
        async for delta in self._deltas(model, messages):
            texts.append(delta.get("content", ""))
            for piece in delta.get("tool_calls", ()):
                if "id" in piece:
                    calls.append({"id": piece["id"], "type": "function", "function": dict(piece["function"])})
                else:
                    calls[-1]["function"]["arguments"] += piece["function"]["arguments"]
        message: Message = {"role": "assistant", "content": "".join(texts)}
        return message | {"tool_calls": calls} if calls else message

    def _keep(self, conversation: str, message: Message) -> None:
        self._conversations[conversation].append(message)

    async def _act(self, conversation: str) -> None:
        for call in self._conversations[conversation][-1]["tool_calls"]:
            result = await probe(**orjson.loads(call["function"]["arguments"]))
            self._keep(conversation, {"role": "tool", "tool_call_id": call["id"], "content": result})

    async def _go_on(self, conversation: str, model: str) -> None:
        while True:
            message = await self._step(model, self._conversations[conversation])
            self._keep(conversation, message)
            if "tool_calls" not in message:
                return
            await self._act(conversation)

    async def steps(self, model: str) -> None:
        self._conversations["steps"] = [{"role": "user", "content": "Go"}]
        await self._go_on("steps", model)

    async def turn(self, conversation: str, model: str) -> None:
        self._conversations.setdefault(conversation, [])
        self._keep(conversation, {"role": "user", "content": user_text()})
        await self._go_on(conversation, model)
