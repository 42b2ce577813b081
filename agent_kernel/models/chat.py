"""The Chat Completions API of OpenAI, which Ollama, vLLM, LM Studio and most hosted services speak too."""

import re
from typing import Any

from agent_kernel.models.answer_reading import AnswerReader, as_text, cut_off
from agent_kernel.models.api import Api
from agent_kernel.models.base import ModelRequest, ModelTurn, TokenUsage
from agent_kernel.models.chat_calls import CallAssembler
from agent_kernel.models.chat_items import ReasoningFields
from agent_kernel.models.chat_messages import build_messages, forms_at
from agent_kernel.models.no_answer import filtered, malformed_call, refused
from agent_kernel.models.provider_items import Item, ProviderItems
from agent_kernel.models.service_faults import Fault, error_object_fault
from agent_kernel.models.thoughts import TextReader
from agent_kernel.models.usage import openai_usage
from agent_kernel.protocol.vocabulary import FinishReason

_LENGTH = frozenset({"length", "max_tokens", "model_length", "model_context_window_exceeded"})
_FAILED = frozenset({"error", "insufficient_system_resource", "network_error"})
"""Faults of the service itself: of OpenRouter, DeepSeek and GLM."""
_MALFORMED = re.compile(r"malformed|unexpected_tool_call|too_many_tool_calls")
_FILTERED = re.compile(r"content_?filter|safety|prohibited|blocklist|recitation|spii|sensitive|guardrail|refusal")
"""Gemini's `content_filter: SAFETY`, and what gateways pass on of Bedrock, GLM and Claude."""


class ChatApi(Api):
    name = "chat"
    path = "chat/completions"

    def __init__(self, wire_name: str, where: str) -> None:
        super().__init__(wire_name, where)
        self.forms = forms_at(where)
        """The forms of messages that the service asks for: see `build_messages`."""

    def whole_body(self, request: ModelRequest) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.wire_name,
            "messages": build_messages(request, self.origin, self.forms),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.tools:  # OpenAI and vLLM refuse an empty list
            body["tools"] = list(request.tools)
        if request.effort is not None:
            body["reasoning_effort"] = request.effort
        return body

    def reader(self) -> "ChatReader":
        return ChatReader(self.origin)


class ChatReader(AnswerReader):
    def __init__(self, origin: str) -> None:
        super().__init__()
        self._origin = origin
        self._finish: str | None = None
        self._reason = ""
        """Why the answer ended, in the words of the service behind a gateway, if it has some."""
        self._refusal: list[str] = []
        self._usage = TokenUsage()
        self._text = TextReader(self._deltas)
        self._calls = CallAssembler(self._deltas.size)
        self._reasoning = ReasoningFields(self._deltas.size)

    @property
    def whole(self) -> bool:
        return self.done or (self._finish is not None and self._calls.unfinished() is None)

    def _add_event(self, event: dict[str, Any]) -> None:
        if event.get("error") or event.get("object") == "error":
            raise error_object_fault(event.get("error") or event)
        usage = event.get("usage")
        if usage:
            self._usage = openai_usage(usage)
        choices = event.get("choices")
        if not choices:
            return
        self._seen = True
        choice = choices[0]
        if choice.get("finish_reason"):
            self._finish = str(choice["finish_reason"]).lower()
            self._reason = as_text(choice.get("native_finish_reason")) or str(choice["finish_reason"])
        delta = choice.get("delta") or choice.get("message")
        if delta:
            self._add_delta(delta)

    def _add_delta(self, delta: dict[str, Any]) -> None:
        content = delta.get("content")
        self._reasoning.add(delta)
        reasoning = delta.get("reasoning_content") or delta.get("reasoning")
        if reasoning:
            self._deltas.add_text("reasoning", _plain(reasoning))
        if content:
            if isinstance(content, str):
                self._text.add(content)
            else:
                self._add_parts(content)
        if delta.get("refusal"):
            self._refusal.append(self._deltas.size.take(_plain(delta["refusal"])))
        for begun in self._calls.add(_call_pieces(delta)):
            self._deltas.add(begun)

    def _add_parts(self, content: Any) -> None:
        for part in content if isinstance(content, list) else [content]:
            if isinstance(part, dict) and part.get("type") in ("thinking", "reasoning"):
                self._deltas.add_text("reasoning", _plain(part))
            else:
                self._text.add(_plain(part))

    def _end(self) -> None:
        self._text.end()
        if self._finish in _FAILED and not self._failure:
            raise Fault("answer", "the server ended the answer with an error", retry=True)
        if self._finish is None and not self.done:
            raise cut_off("the connection ended", self._calls.unfinished())
        if self._calls.broken_off() and (self._finish is None or self._finish in _LENGTH):
            raise cut_off("the server stopped", self._calls.unfinished(), at_limit=self._finish is not None)

    def _turn(self) -> ModelTurn:
        items: tuple[Item, ...] = (*self._reasoning.items(), *self._calls.items(self._reasoning.ids()))
        return ModelTurn(
            content=self._deltas.content,
            reasoning=self._deltas.reasoning,
            tool_calls=self._calls.result(),
            finish_reason=_finish_reason(self._finish or ""),
            failure=self._failure,
            usage=self._usage,
            provider=ProviderItems("chat", self._origin, items) if items else None,
        )

    @property
    def _failure(self) -> str:
        """See `ModelTurn.failure`."""
        if any(self._refusal):
            return refused("".join(self._refusal))
        ended = f"{self._finish} {self._reason}".lower()
        if _MALFORMED.search(ended):
            return malformed_call(self._reason)
        if _FILTERED.search(ended):
            return filtered("" if self._reason == "content_filter" else self._reason)
        return ""


def _call_pieces(delta: dict[str, Any]) -> list[dict[str, Any]]:
    pieces = delta.get("tool_calls") or ()
    return [piece for piece in ([pieces] if isinstance(pieces, dict) else pieces) if isinstance(piece, dict)]


def _plain(part: Any) -> str:
    """The text of a content part, however deeply it is nested."""
    if isinstance(part, str):
        return part
    if isinstance(part, list):
        return "".join(_plain(item) for item in part)
    if isinstance(part, dict):
        return _plain(part.get("text") or part.get("thinking") or part.get("content") or "")
    return ""


def _finish_reason(reason: str) -> FinishReason:
    if reason in _LENGTH:
        return "length"
    return "content_filter" if _FILTERED.search(reason) else "stop"
