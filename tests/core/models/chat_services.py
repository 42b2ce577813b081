"""Services that speak Chat Completions, each as strict as the one that it stands for, with its words."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar

from agent_kernel.models.chat_items import REASONING
from agent_kernel.testing.fake_openai import FakeOpenAI
from agent_kernel.testing.wire.reply import Reply, error_reply, failure
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


def calls_of(messages: list[Message]) -> list[Message]:
    return [call for message in messages for call in message.get("tool_calls") or ()]


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


class GeminiAtOpenRouter(StrictService):
    """The first call of each step needs its signature, found by the call's id."""

    def refusal(self, body: dict[str, Any]) -> Reply | None:
        for one in answers(body["messages"]):
            signed = {item["id"]: item["data"] for item in one.get("reasoning_details", ()) if item.get("data")}
            for call in one.get("tool_calls", ())[:1]:
                if not signed.get(call["id"], "").startswith("signature of "):
                    raw = f"Function call is missing a thought_signature, function call `{call['function']['name']}`"
                    error = {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw}}
                    return error_reply({"error": error}, 400, times=1, headers={})
        return None


class Mistral(StrictService):
    def refusal(self, body: dict[str, Any]) -> Reply | None:
        for name in _ids(body["messages"]):
            if not re.fullmatch("[a-zA-Z0-9]{9}", name):
                said = f"Tool call id was {name} but must be a-z, A-Z, 0-9, with a length of 9."
                error = {"object": "error", "message": said, "type": "invalid_function_call", "code": "3280"}
                return error_reply(error, 400, times=1, headers={})
        roles = [message["role"] for message in body["messages"]]
        if ("tool", "user") in pairwise(roles):
            said = "Unexpected role 'user' after role 'tool'"
            error = {"object": "error", "message": said, "type": "invalid_request_message_order", "code": "3230"}
            return error_reply(error, 400, times=1, headers={})
        for at, one in enumerate(body["messages"]):
            for name in set(one).intersection(REASONING):
                place = ["body", "messages", at, "assistant", name]
                extra = {"type": "extra_forbidden", "loc": place, "msg": "Extra inputs are not permitted"}
                details = {"detail": [extra | {"input": one[name]}]}
                return error_reply({"object": "error", "message": details, "code": None}, 422, times=1, headers={})
        return None


class Gateway(StrictService):
    """Claude behind the gateways of Bedrock and Databricks."""

    def refusal(self, body: dict[str, Any]) -> Reply | None:
        for one in body["messages"]:
            if "content" not in one:
                return failure(400, "messages: content: Field required")
            if one["content"] is None and not one.get("tool_calls"):
                return failure(400, "messages: Invalid value for 'content': expected a string, got null.")
            parts = one["content"] if isinstance(one["content"], list) else [{"type": "text", "text": one["content"]}]
            if any(part["type"] == "text" and part["text"] is not None and not part["text"].strip() for part in parts):
                return failure(400, "messages: text content blocks must contain non-whitespace text")
        return None


class LiteLLM(StrictService):
    """Claude behind LiteLLM's proxy, which makes the blocks of a message from its `thinking_blocks`."""

    def refusal(self, body: dict[str, Any]) -> Reply | None:
        for at, one in enumerate(answers(body["messages"])):
            blocks = one.get("thinking_blocks", [])
            if one.get("tool_calls") and not blocks:
                said = f"messages.{at}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`"
                return failure(400, f"litellm.BadRequestError: AnthropicException - {said}")
            for number, block in enumerate(blocks):
                if block not in self.signed:
                    said = f"messages.{at}.content.{number}: Invalid `signature` in `thinking` block"
                    return failure(400, f"litellm.BadRequestError: AnthropicException - {said}")
        return None

    signed: ClassVar = [
        {"type": "thinking", "thinking": "First look.", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "ZW5j"},
        {"type": "thinking", "thinking": "", "signature": "bW9yZQ=="},
    ]


class Groq(StrictService):
    def refusal(self, body: dict[str, Any]) -> Reply | None:
        for at, one in enumerate(body["messages"]):
            for name in (*REASONING, "extra_content"):
                if f'"{name}":' in json.dumps(one):
                    said = f"'messages.{at}' : for 'role:assistant' the following must be satisfied[('messages.{at}' : "
                    return failure(400, f"{said}property '{name}' is unsupported)]")
        return None


def speaking_as(service: type[StrictService]) -> WireApi:
    return replace(CHAT, service=service)


def _ids(messages: list[Message]) -> Iterator[str]:
    yield from (call["id"] for call in calls_of(messages))
    yield from (message["tool_call_id"] for message in messages if message["role"] == "tool")
