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
MOST_MARKS = 4
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
        try:
            check_messages_request(body)
            check_request(body)
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
        """Raises `Refused`."""
        said = _transcript(request)
        for place, block in _placed(request):
            before = self._after.get(_key(block)) if block["type"] in _THOUGHT else []
            if before is None or said[: len(before)] != before:
                raise Refused(f"{place}: Invalid `signature` in `thinking` block")


def check_request(request: dict[str, Any]) -> None:
    """Check what the types of the client don't say. Raises `Refused`."""
    marked = [*request.get("tools", ()), *request.get("system", ()), *(block for _, block in _placed(request))]
    if (count := sum("cache_control" in one for one in marked)) > MOST_MARKS:
        raise Refused(f"A maximum of {MOST_MARKS} blocks with cache_control may be provided. Found {count}.")
    for place, block in _placed(request):
        _check_block(place, block)
    _check_turns(request["messages"])
    calls = any(block["type"] == "tool_use" for _, block in _placed(request))
    if calls and not request.get("tools"):
        raise Refused("Requests which have `tool_use` or `tool_result` blocks in `messages` must define `tools`.")


def _check_block(place: str, block: Block) -> None:
    match block["type"]:
        case "text" if not block["text"].strip():
            raise Refused("messages: text content blocks must contain non-whitespace text")
        case "tool_use" if not (_ID.match(block["id"]) and _NAME.match(block["name"])):
            raise Refused(f"{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
        case "tool_result" if isinstance(content := block.get("content"), list):
            for inner in content:
                _check_block(f"{place}.tool_result.content", inner)


def _check_turns(messages: list[dict[str, Any]]) -> None:
    """Check that roles alternate, and that every call is answered in the next message, before anything else there."""
    roles = [message["role"] for message in messages]
    if roles != ["user", "assistant"] * (len(roles) // 2) + ["user"]:
        raise Refused('messages: roles must alternate between "user" and "assistant", and begin and end with "user"')
    seen: set[str] = set()
    waiting: list[str] = []
    for index, message in enumerate(messages):
        results = [block["tool_use_id"] for block in message["content"] if block["type"] == "tool_result"]
        if sorted(results) != sorted(waiting):
            raise Refused(
                f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after, or the "
                f"other way round: {waiting}, {results}."
            )
        if any(block["type"] != "tool_result" for block in message["content"][: len(results)]):
            raise Refused(f"messages.{index}: `tool_result` blocks must come first in the message.")
        waiting = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        if seen & set(waiting) or len(set(waiting)) < len(waiting):
            raise Refused(f"messages.{index}: `tool_use` ids must be unique")
        seen |= set(waiting)


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
