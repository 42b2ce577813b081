"""The Chat Completions API, as OpenAI made it and Ollama, vLLM, LM Studio and most hosted services speak it."""

import json
from collections.abc import Iterator
from typing import Any

import orjson

from agent_kernel.models.api import Target
from agent_kernel.models.base import (
    IMAGES,
    PROVIDER,
    ModelItem,
    ModelRequest,
    ModelTurn,
    ReasoningDelta,
    TextDelta,
    TokenUsage,
    WireMessage,
)
from agent_kernel.models.chat_calls import CallAssembler
from agent_kernel.models.faults import Fault, error_object_fault
from agent_kernel.models.images import SHOWN_BY, absent_line, data_url
from agent_kernel.models.sse import BYTE_ORDER_MARK, EventReader
from agent_kernel.protocol.vocabulary import ApiName, FinishReason

Part = dict[str, Any]
"""Of a message's content."""

_DONE = b"[DONE]"
_LENGTH = frozenset({"length", "max_tokens", "model_length"})


class ChatApi:
    name: ApiName = "chat"
    path = "chat/completions"

    def headers(self, key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"}

    def body(self, request: ModelRequest, target: Target) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": target.wire_name,
            "messages": list(_messages(request)),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.tools:  # an empty list is refused by OpenAI and by vLLM
            body["tools"] = list(request.tools)
        if request.effort is not None:
            body["reasoning_effort"] = request.effort
        return body

    def reader(self, target: Target) -> "ChatReader":  # noqa: ARG002 (nothing in an answer depends on it)
        return ChatReader()


_OWN_FIELDS = frozenset({IMAGES, PROVIDER})


def _messages(request: ModelRequest) -> Iterator[WireMessage]:
    """The conversation as this API takes it. A tool message holds no pictures here: what calls showed follows all the
    answers of their step, as a message of the user."""
    shown: list[Part] = []
    for message in request.messages:
        is_answer = message["role"] == "tool"
        if shown and not is_answer:
            yield {"role": "user", "content": shown}
            shown = []
        if not message.get(IMAGES):
            yield _message(message)
            continue
        pictures = [_picture(ref, request) for ref in message[IMAGES]]
        if is_answer:
            shown += [_text(SHOWN_BY.format(message["tool_call_id"])), *pictures]
            yield _message(message)
        else:
            yield _message(message) | {"content": [_text(message["content"]), *pictures]}
    if shown:
        yield {"role": "user", "content": shown}


def _picture(ref: dict[str, Any], request: ModelRequest) -> Part:
    url = data_url(ref, request.images)
    return {"type": "image_url", "image_url": {"url": url}} if url is not None else _text(absent_line(ref))


def _text(text: str) -> Part:
    return {"type": "text", "text": text}


def _message(message: WireMessage) -> WireMessage:
    """Without the fields that are ours."""
    if _OWN_FIELDS.isdisjoint(message):
        return message
    return {name: value for name, value in message.items() if name not in _OWN_FIELDS}


class ChatReader:
    """Feed it the body as it arrives. Deltas of one kind within one chunk are joined into one item, because each
    item costs everything downstream of it more than reading it cost here."""

    def __init__(self) -> None:
        self.done = False
        """True once the server said that nothing follows."""
        self._events = EventReader()
        self._body: list[bytes] | None = None  # a plain JSON body, where the server did not stream
        self._sniffed = False
        self._seen = False
        self._finish: str | None = None
        self._usage = TokenUsage()
        self._calls = CallAssembler()
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._fresh_kind = ""
        self._fresh: list[str] = []
        self._items: list[ModelItem] = []

    def feed(self, chunk: bytes) -> list[ModelItem]:
        """The deltas in `chunk`. Raises `Fault`."""
        if not self._sniffed:
            self._sniff(chunk)
        if self._body is not None:
            self._body.append(chunk)
            return []
        for event in self._events.feed(chunk):
            if event == _DONE:
                self.done = True
            elif not self.done:
                self._add_event(event)
        return self._take()

    def finish(self) -> list[ModelItem]:
        """The end of the body was reached. The last item is the turn. Raises `Fault` if it was cut off."""
        if self._body is not None:
            self._add_event(b"".join(self._body).removeprefix(BYTE_ORDER_MARK), whole=True)
        else:
            for event in self._events.finish():
                if event.strip() == _DONE:
                    self.done = True
                elif event.strip():
                    self._add_event(event)
        items = self._take()
        self._check_whole()
        return [*items, self._turn()]

    @property
    def whole(self) -> bool:
        """Whether a connection that breaks now has lost nothing."""
        return self.done or (self._finish is not None and self._calls.unfinished() is None)

    def _sniff(self, chunk: bytes) -> None:
        start = chunk.removeprefix(BYTE_ORDER_MARK).lstrip()
        if start:
            self._sniffed = True
            if start.startswith(b"{"):
                self._body = []
            elif start.startswith(b"<"):
                raise Fault("address", "it answered with a web page")

    def _add_event(self, raw: bytes, *, whole: bool = False) -> None:
        event = _load(raw)
        try:
            self._add_object(event, raw, whole=whole)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            raise Fault("answer", "the server sent an event of an unknown shape", retry=True) from None

    def _add_object(self, event: Any, raw: bytes, *, whole: bool) -> None:
        if not isinstance(event, dict):
            raise Fault("answer", "the server sent an event that is no JSON object", retry=True)
        if event.get("error") or event.get("object") == "error":
            raise error_object_fault(event.get("error") or event)
        usage = event.get("usage")
        if usage:
            self._usage = _usage(usage)
        choices = event.get("choices")
        if not choices:
            if whole:
                raise Fault("address", "it answered with JSON that holds no choices")
            return
        self._seen = True
        choice = choices[0]
        if choice.get("finish_reason"):
            self._finish = str(choice["finish_reason"])
        delta = choice.get("delta") or choice.get("message")
        if delta:
            self._add_delta(delta, raw)

    def _add_delta(self, delta: dict[str, Any], raw: bytes) -> None:
        reasoning = delta.get("reasoning_content") or delta.get("reasoning")
        if reasoning:
            self._add_text("reasoning", _plain(reasoning))
        content = delta.get("content")
        if content:
            if isinstance(content, str):
                self._add_text("text", content)
            else:
                self._add_parts(content)
        if delta.get("refusal"):
            self._add_text("text", _plain(delta["refusal"]))
        pieces = _call_pieces(delta)
        if pieces:
            if any(_has_object(piece) for piece in pieces):  # orjson would round big integers in them
                choice = json.loads(raw)["choices"][0]
                pieces = _call_pieces(choice.get("delta") or choice["message"])
            for begun in self._calls.add(pieces):
                self._close_text()
                self._items.append(begun)

    def _add_parts(self, content: Any) -> None:
        for part in content if isinstance(content, list) else [content]:
            if isinstance(part, dict) and part.get("type") in ("thinking", "reasoning"):
                self._add_text("reasoning", _plain(part))
            else:
                self._add_text("text", _plain(part))

    def _add_text(self, kind: str, text: str) -> None:
        if not text:
            return
        if kind != self._fresh_kind:
            self._close_text()
            self._fresh_kind = kind
        self._fresh.append(text)

    def _close_text(self) -> None:
        if not self._fresh:
            return
        text = "".join(self._fresh)
        self._fresh.clear()
        if self._fresh_kind == "reasoning":
            self._reasoning.append(text)
            self._items.append(ReasoningDelta(text))
        else:
            self._content.append(text)
            self._items.append(TextDelta(text))
        self._fresh_kind = ""

    def _take(self) -> list[ModelItem]:
        self._close_text()
        items, self._items = self._items, []
        return items

    def _check_whole(self) -> None:
        if not self._seen:
            raise Fault("answer", "the server sent no answer", retry=True)
        if self._finish == "error":
            raise Fault("answer", "the server ended the answer with an error", retry=True)
        if self._finish is None and not self.done:
            raise Fault("answer", self._cut("the connection ended"), retry=True)
        broken = self._calls.broken_off()
        if broken and self._finish is None:
            raise Fault("answer", self._cut("the server stopped"), retry=True)
        if broken and self._finish in _LENGTH:
            raise Fault("answer", self._cut("the answer reached its length limit"))

    def _cut(self, how: str) -> str:
        name = self._calls.unfinished()
        return f"{how} in the middle of " + (f"a call of {name}" if name else "the answer")

    def _turn(self) -> ModelTurn:
        return ModelTurn(
            content="".join(self._content),
            reasoning="".join(self._reasoning),
            tool_calls=self._calls.result(),
            finish_reason=_finish_reason(self._finish),
            usage=self._usage,
        )


def _load(raw: bytes) -> Any:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        pass
    try:  # half an emoji, as some servers send it: orjson refuses what can't be written as UTF-8
        lenient = json.loads(raw.decode("utf-8", "replace"))
        return orjson.loads(json.dumps(lenient, ensure_ascii=False).encode("utf-8", "replace"))
    except ValueError:
        start = raw[:80].decode("utf-8", "replace")
        raise Fault("answer", f"the server sent an event that is not JSON: {start}", retry=True) from None


def _call_pieces(delta: dict[str, Any]) -> list[dict[str, Any]]:
    pieces = delta.get("tool_calls")
    if isinstance(pieces, dict):
        return [pieces]
    if pieces:
        return [piece for piece in pieces if isinstance(piece, dict)]
    legacy = delta.get("function_call")
    return [{"function": legacy}] if isinstance(legacy, dict) else []


def _has_object(piece: dict[str, Any]) -> bool:
    function = piece.get("function")
    function = function if isinstance(function, dict) else piece
    return isinstance(function.get("arguments"), dict) or isinstance(function.get("parameters"), dict)


def _plain(part: Any) -> str:
    """The text of a content part, however deep it sits."""
    if isinstance(part, str):
        return part
    if isinstance(part, list):
        return "".join(_plain(item) for item in part)
    if isinstance(part, dict):
        return _plain(part.get("text") or part.get("thinking") or part.get("content") or "")
    return ""


def _usage(usage: dict[str, Any]) -> TokenUsage:
    return TokenUsage(
        input_tokens=int(usage.get("prompt_tokens") or usage.get("input_tokens") or 0),
        output_tokens=int(usage.get("completion_tokens") or usage.get("output_tokens") or 0),
    )


def _finish_reason(reason: str | None) -> FinishReason:
    if reason in _LENGTH:
        return "length"
    return "content_filter" if reason == "content_filter" else "stop"
