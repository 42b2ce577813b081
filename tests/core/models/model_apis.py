"""The APIs of model services, described for the tests that all of them have to pass.

A test that takes `api` runs once for each. What only one API knows, or gets wrong, has a module of its own.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from agent_kernel.models.answer_reading import AnswerReader
from agent_kernel.models.anthropic import MessagesApi
from agent_kernel.models.api import Api
from agent_kernel.models.base import ModelTurn
from agent_kernel.models.chat import ChatApi
from agent_kernel.models.responses import ResponsesApi
from agent_kernel.protocol.vocabulary import ApiName
from agent_kernel.testing.fake_anthropic import FAKE_ANTHROPIC_KEY, FakeAnthropic
from agent_kernel.testing.fake_openai import FAKE_KEY, FakeOpenAI
from agent_kernel.testing.fake_service import FakeService, ReceivedRequest
from agent_kernel.testing.scripted_model import requested
from agent_kernel.testing.wire import chat, messages, reply, responses
from agent_kernel.testing.wire.reply import Reply

Events = list[Any]
"""What a server sends, before it is JSON. Anything, where a test sends nonsense."""


@dataclass(frozen=True)
class WireApi:
    """One API, from the server's side."""

    name: ApiName
    make: Callable[[str, str], Api]
    service: type[FakeService]
    events_of: Callable[[ModelTurn], Events]
    """A turn as the events of a server that does it right."""
    interleaved: Callable[[ModelTurn], Events]
    """Its calls in turns, piece by piece."""
    event_stream: Callable[..., bytes]
    """Events as bytes. It takes `done`."""
    changes: Mapping[str, Callable[[Events], Events]]
    """Ways in which servers get the events wrong, with nothing lost."""
    text: Callable[[Iterable[str]], Events]
    """A piece of text in each event, with what must stand before the first and nothing after the last."""
    text_end: Callable[[Iterable[str]], Events]
    """What ends an answer of these pieces."""
    half_call: Callable[[str, str], Events]
    """A call of this name with these arguments, without its end."""
    length_reached: Callable[[], Events]
    """The end of an answer that reached its length limit in the middle of that call."""
    error: Callable[[str, int | None], Events]
    """An error with this message, and this HTTP status, inside the stream."""
    texts_sent: Callable[[dict[str, Any]], Iterator[str]]
    """All texts of messages in a request."""
    key_header: tuple[str, str] = ("authorization", "Bearer {}")
    key: str = FAKE_KEY
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the `Endpoint`."""

    def reader(self) -> AnswerReader:
        return self.make("fake", "http://fake").reader()

    def body(self, turn: ModelTurn) -> bytes:
        return self.event_stream(self.events_of(turn))

    def streamed(self, turn: ModelTurn, **options: Any) -> Reply:
        """`options` are fields of `Reply`."""
        return Reply(body=self.body(turn), **options)

    def saying(self, *pieces: str, end: bool = True) -> bytes:
        """An answer of these pieces of text, an event each."""
        events = [*self.text(pieces), *(self.text_end(pieces) if end else ())]
        return self.event_stream(events, done=end)

    def broken(self, *pieces: str, message: str, status: int | None = None) -> bytes:
        """Pieces of text, and then an error."""
        return self.event_stream([*self.text(pieces), *self.error(message, status)], done=False)

    def ways(self, turn: ModelTurn) -> dict[str, Reply]:
        """All ways in which servers send a turn whole."""
        body = self.body(turn)
        right = self.events_of(turn)
        changed = {name: Reply(body=self.event_stream(change(right))) for name, change in self.changes.items()}
        return {
            "plain": Reply(body=body),
            "crlf": Reply(body=body.replace(b"\n", b"\r\n")),
            "keep-alives": Reply(body=body.replace(b"\n\n", b"\n\n: keep-alive\n\n")),
            "bom": Reply(body=b"\xef\xbb\xbf" + body),
            "no last blank line": Reply(body=body.rstrip(b"\n")),
            "interleaved": Reply(body=self.event_stream(self.interleaved(turn)), split_every=11),
            **changed,
        }

    def sent_key(self, request: ReceivedRequest) -> str:
        name, shape = self.key_header
        return request.headers[name].removeprefix(shape.format(""))


def said(turn: ModelTurn) -> ModelTurn:
    """What a turn says, without what only its provider can read."""
    return replace(turn, provider=None)


def _without_indices(chunks: Events) -> Events:
    """Ollama before 0.4.7, Gemini."""
    return [{**chunk, "choices": [_without_index(choice) for choice in chunk["choices"]]} for chunk in chunks]


def _without_index(choice: dict[str, Any]) -> dict[str, Any]:
    calls = [{name: one[name] for name in one if name != "index"} for one in choice["delta"].get("tool_calls", ())]
    return choice | {"delta": choice["delta"] | {"tool_calls": calls}} if calls else choice


CHAT = WireApi(
    name="chat",
    make=ChatApi,
    service=FakeOpenAI,
    events_of=lambda turn: list(chat.chunks_of(turn)),
    interleaved=lambda turn: list(chat.chunks_of(turn, interleave=True)),
    event_stream=chat.event_stream,
    changes={"no indices": _without_indices},
    text=lambda pieces: [chat.delta(content=piece) for piece in pieces],
    text_end=lambda _: [chat.delta("stop")],
    half_call=lambda name, arguments: [
        chat.delta(tool_calls=[{"index": 0, "id": "c", "function": {"name": name, "arguments": arguments}}])
    ],
    length_reached=lambda: [chat.delta("length")],
    error=lambda message, status: [{"error": {"message": message, "code": status}}],
    texts_sent=lambda body: (str(message["content"]) for message in body["messages"]),
)

_MESSAGE = {"output_index": 0, "item_id": "msg_fake"}


def _responses_text(pieces: Iterable[str]) -> Events:
    events = responses.item_events([responses.message("")])[:3]
    place = {**_MESSAGE, "content_index": 0, "logprobs": []}
    return [*events, *({"type": "response.output_text.delta", **place, "delta": piece} for piece in pieces)]


def _responses_call(name: str, arguments: str) -> Events:
    item = responses.function_call(requested(name, arguments), 0)
    return [event for event in responses.item_events([item])[:-1] if not event["type"].endswith(".done")]


def _responses_error(message: str, status: int | None) -> Events:
    return [{"type": "error", "message": message, "code": None if status is None else str(status), "param": None}]


def without(*types: str) -> Callable[[Events], Events]:
    """Drop events that a server never sends."""
    return lambda events: [event for event in events if not str(event["type"]).endswith(types)]


def without_output(events: Events) -> Events:
    return [*events[:-1], {**events[-1], "response": {**events[-1]["response"], "output": []}}]


def only_last(events: Events) -> Events:
    """A proxy that requests without streaming and sends the result as one event (LiteLLM)."""
    return events[:1] + events[-1:]


RESPONSES = WireApi(
    name="responses",
    make=ResponsesApi,
    service=FakeOpenAI,
    events_of=lambda turn: responses.numbered(responses.events_of(turn)),
    interleaved=lambda turn: responses.numbered(responses.events_of(turn, interleave=True)),
    event_stream=reply.event_stream,
    changes={
        "all at the end": only_last,
        "items not opened": without("item.added"),
        "no deltas": without(".delta"),
        "items not ended": without("item.done"),
        "nothing in the end": without_output,
    },
    text=_responses_text,
    text_end=lambda pieces: responses.item_events([responses.message("".join(pieces))])[-2:],
    half_call=_responses_call,
    length_reached=lambda: responses.item_events([], finish="length")[-1:],
    error=_responses_error,
    texts_sent=lambda body: (str(item["content"]) for item in body["input"] if item["type"] == "message"),
)


def _messages_stream(events: Events, *, done: bool = True, **options: Any) -> bytes:
    return reply.event_stream([*events, messages.END] if done else events, **options)


def _messages_call(name: str, arguments: str) -> Events:
    begun = messages.block_start(1, type="tool_use", id="toolu_1", name=name, input={})
    return [begun, messages.delta(1, "input_json_delta", partial_json=arguments)]


def _messages_error(message: str, status: int | None) -> Events:
    kinds = {400: "invalid_request_error", 429: "rate_limit_error", 500: "api_error"}
    return [messages.error(kinds.get(status or 0, "something_new"), message)]


MESSAGES = WireApi(
    name="messages",
    make=MessagesApi,
    service=FakeAnthropic,
    events_of=lambda turn: messages.events_of(turn)[:-1],
    interleaved=lambda turn: messages.events_of(turn, interleave=True)[:-1],
    event_stream=_messages_stream,
    changes={
        "pings": lambda events: [one for event in events for one in (messages.PING, event)],
        "not opened": lambda events: events[1:],
        "not ended": lambda events: [event for event in events if event["type"] != "content_block_stop"],
    },
    text=lambda pieces: [
        messages.start(),
        messages.block_start(0, type="text", text=""),
        *(messages.delta(0, "text_delta", text=piece) for piece in pieces),
    ],
    text_end=lambda _: [messages.block_stop(0), messages.stop()],
    half_call=_messages_call,
    length_reached=lambda: [messages.stop("max_tokens")],
    error=_messages_error,
    texts_sent=lambda body: (
        str(block["text"]) for message in body["messages"] for block in message["content"] if block["type"] == "text"
    ),
    key=FAKE_ANTHROPIC_KEY,
)

APIS = (CHAT, RESPONSES, MESSAGES)
BY_NAME = {api.name: api for api in APIS}

each_api = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
"""Runs a test with each API as `api`."""
