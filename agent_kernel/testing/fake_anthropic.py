"""A fake of Anthropic's service that refuses what the real one refuses, with the same messages.

In a test:

    with FakeAnthropic([call("run_python", code="1 + 1"), say("Two.")]) as server:
        environ = server.environment()          # ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY, AGENT_KERNEL_MODEL
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from agent_kernel.models.base import ModelTurn
from agent_kernel.testing.fake_service import FakeService, Scripted
from agent_kernel.testing.wire import messages
from agent_kernel.testing.wire.reply import Reply
from agent_kernel.testing.wire.schemas import WrongRequest, check_messages_request

FAKE_ANTHROPIC_KEY = "sk-ant-fake-0123456789abcdef"
Block = dict[str, Any]
_THOUGHT = ("thinking", "redacted_thinking")
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}\Z")


class FakeAnthropic(FakeService):
    """Speaks the Messages API; see `FakeService` for what its script may hold. A request that the official client could
    not have sent, or that the service refuses whatever was said before, is refused, and `assert_consumed` raises."""

    routes: ClassVar = {"/v1/messages": messages.streamed}

    def __init__(self, script: Iterable[Scripted] = (), **options: Any) -> None:
        super().__init__(script, **options)
        self._transcripts = Transcripts()

    @property
    def address(self) -> str:
        """The base URL as Anthropic's own client takes it, without a version."""
        return self.url.removesuffix("/v1")

    def environment(self, model: str = "fake") -> dict[str, str]:
        """The environment variables that make this the default endpoint."""
        return {
            "ANTHROPIC_BASE_URL": self.address,
            "ANTHROPIC_API_KEY": FAKE_ANTHROPIC_KEY,
            "AGENT_KERNEL_MODEL": model,
        }

    def answer(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Reply:  # noqa: ARG002 -- as the base has it
        if "authorization" not in headers and "x-api-key" not in headers:
            return messages.refusal(401, "authentication_error", "x-api-key header is required")
        try:
            check_messages_request(body)
            check_request(body, headers)
        except (WrongRequest, Refused) as error:
            self.wrong.append(str(error))
            return messages.refusal(400, "invalid_request_error", str(error))
        try:
            self._transcripts.check(body)
        except Refused as refused:
            return messages.refusal(400, "invalid_request_error", str(refused))

        def streamed(turn: ModelTurn) -> Reply:
            self._transcripts.remember(body, turn)
            return messages.streamed(turn)

        return self._next(body, streamed)


class Refused(Exception):
    """A refused request; the message is that of the service's 400."""


class Transcripts:
    """Remembers thinking, which must come back unchanged after the same messages, or not at all."""

    def __init__(self) -> None:
        self._after: dict[str, list[Any]] = {}

    def remember(self, request: dict[str, Any], turn: ModelTurn) -> None:
        """Remember the thinking in the answer to `request`."""
        for block in messages.blocks_of(turn):
            if block["type"] in _THOUGHT:
                self._after.setdefault(_key(block), _transcript(request))

    def check(self, request: dict[str, Any]) -> None:
        said = _transcript(request)
        for place, block in _placed(request):
            if block["type"] not in _THOUGHT:
                continue
            if not block.get("signature", block.get("data")):
                raise Refused(f"{place}.{block['type']}.signature: Field required")
            before = self._after.get(_key(block))
            if before is None:
                raise Refused(f"{place}: Invalid `signature` in `thinking` block")
            if said[: len(before)] != before:
                raise Refused(
                    f"{place}: Invalid `signature` in `thinking` block. The block is bound to a different "
                    "conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "
                    '"drop_block".'
                )


def check_request(request: dict[str, Any], headers: Mapping[str, str]) -> None:
    """Check what the types of the client don't say. Raises `Refused`."""
    if "anthropic-version" not in headers:
        raise Refused("anthropic-version: header is required")
    if not request["messages"]:
        raise Refused("messages: at least one message is required")
    _check_settings(request)
    _check_marks(request)
    for place, block in _placed(request):
        _check_block(place, block)
    _check_turns(request["messages"])
    calls = any(block["type"] == "tool_use" for _, block in _placed(request))
    if calls and not request.get("tools"):
        raise Refused("Requests which have `tool_use` or `tool_result` blocks in `messages` must define `tools`.")


def _check_settings(request: dict[str, Any]) -> None:
    budget = request.get("thinking", {}).get("budget_tokens", 1024)
    if not 1024 <= budget < max(request["max_tokens"], 1025):
        raise Refused("`max_tokens` must be greater than `thinking.budget_tokens`.")
    for index, tool in enumerate(request.get("tools", ())):
        if not _NAME.match(tool["name"]):
            raise Refused(f"tools.{index}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
    names = [tool["name"] for tool in request.get("tools", ())]
    if len(set(names)) < len(names):
        raise Refused("tools: Tool names must be unique.")


def _check_marks(request: dict[str, Any]) -> None:
    marked = sum("cache_control" in one for one in [*request.get("tools", ()), *request.get("system", ())])
    for _, block in _placed(request):
        if "cache_control" in block:
            marked += 1
            if block["type"] in _THOUGHT:
                raise Refused(f"{block['type']} blocks cannot have cache_control")
    if marked > 4:
        raise Refused(f"A maximum of 4 blocks with cache_control may be provided. Found {marked}.")


def _check_block(place: str, block: Block) -> None:
    match block["type"]:
        case "text":
            if not block["text"].strip():
                raise Refused("messages: text content blocks must contain non-whitespace text")
        case "tool_use":
            if not _ID.match(block["id"]):
                raise Refused(f"{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
            if not _NAME.match(block["name"]):
                raise Refused(f"{place}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        case "tool_result":
            content = block.get("content", "")
            for inner in content if isinstance(content, list) else ():
                _check_block(f"{place}.tool_result.content", inner)


def _check_turns(messages: list[dict[str, Any]]) -> None:
    """Check that every call is answered in the next message, before anything else there."""
    if messages[0]["role"] != "user":
        raise Refused('messages: first message must use the "user" role')
    seen: set[str] = set()
    waiting: list[str] = []
    for index, message in enumerate(messages):
        results = [block.get("tool_use_id") for block in message["content"] if block["type"] == "tool_result"]
        if sorted(results) != sorted(waiting):
            missing = ", ".join(sorted(set(waiting) - set(results)))
            raise Refused(
                f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{missing}. Each `tool_use` block must have a corresponding `tool_result` block in the next message."
                if missing
                else f"messages.{index}.content: unexpected `tool_use_id` found in `tool_result` blocks: {results}."
            )
        if any(block["type"] != "tool_result" for block in message["content"][: len(results)]):
            raise Refused(f"messages.{index}: `tool_result` blocks must come first in the message.")
        waiting = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        if seen & set(waiting) or len(set(waiting)) < len(waiting):
            raise Refused(f"messages.{index}: `tool_use` ids must be unique")
        seen |= set(waiting)
        if index and message["role"] == messages[index - 1]["role"]:
            raise Refused('messages: roles must alternate between "user" and "assistant"')
    if waiting:
        raise Refused(f"messages.{len(messages) - 1}: `tool_use` ids were found without `tool_result` blocks")
    if messages[-1]["role"] == "assistant":
        raise Refused(
            "This model does not support assistant message prefill. The conversation must end with a user message."
        )


def _placed(request: dict[str, Any]) -> Iterator[tuple[str, Block]]:
    for index, message in enumerate(request["messages"]):
        for at, block in enumerate(message["content"]):
            yield f"messages.{index}.content.{at}", block


def _transcript(request: dict[str, Any]) -> list[Any]:
    """The roles and content in order, without marks for the cache."""
    head = [_bare(request.get("system", [])), _bare(request.get("tools", []))]
    return head + [(message["role"], _bare(block)) for message in request["messages"] for block in message["content"]]


def _bare(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _bare(inner) for name, inner in value.items() if name != "cache_control"}
    return [_bare(inner) for inner in value] if isinstance(value, list) else value


def _key(block: Block) -> str:
    return json.dumps(_bare(block), sort_keys=True)
