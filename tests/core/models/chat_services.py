"""Services that speak Chat Completions, each as strict as the one that it stands for, with its words."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agent_kernel.testing.fake_openai import FakeOpenAI
from agent_kernel.testing.wire.reply import Reply, failure
from tests.core.models.model_apis import CHAT, WireApi

Message = dict[str, Any]


class StrictService(FakeOpenAI):
    """Refuses a request before it takes the next entry of the script."""

    def refusal(self, body: dict[str, Any]) -> Reply | None:
        raise NotImplementedError

    def answer(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Reply:
        return self.refusal(body) or super().answer(path, headers, body)


def sent(service: FakeOpenAI, request: int = -1) -> list[Message]:
    messages: list[Message] = service.requests[request].body["messages"]
    return messages


def answers(messages: list[Message]) -> list[Message]:
    return [message for message in messages if message["role"] == "assistant"]


class DeepSeek(StrictService):
    """In the thinking mode (api-docs.deepseek.com/guides/thinking_mode)."""

    def refusal(self, body: dict[str, Any]) -> Reply | None:
        if all("reasoning_content" in one for one in answers(body["messages"]) if one.get("tool_calls")):
            return None
        return failure(400, "The `reasoning_content` in the thinking mode must be passed back to the API.")


class Kimi(StrictService):
    def refusal(self, body: dict[str, Any]) -> Reply | None:
        for at, one in enumerate(body["messages"]):
            if one.get("tool_calls") and "reasoning_content" not in one:
                return failure(400, f"thinking is enabled but reasoning_content is missing in message at index {at}")
        return None


def speaking_as(service: type[StrictService]) -> WireApi:
    return replace(CHAT, service=service)
