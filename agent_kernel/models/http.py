"""A model behind HTTP: requests, retries, fallbacks and streaming, for every API.

Requests and answers go over the `openai` client's connection as bytes; the `Api` object makes the bodies and reads the
answers.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import orjson

from agent_kernel.errors import ContextExceeded, ModelError
from agent_kernel.models.answer_reading import AnswerReader
from agent_kernel.models.api import Amendment, Api, Target
from agent_kernel.models.base import (
    PROVIDER,
    ModelFacts,
    ModelItem,
    ModelRequest,
    ModelTurn,
    Notice,
    Retraction,
    TextDelta,
    WireMessage,
)
from agent_kernel.models.chat import ChatApi
from agent_kernel.models.client import SharedClient, network_fault, read_whole, unpacked
from agent_kernel.models.fallbacks import Fallbacks, refuses_tools
from agent_kernel.models.known import NO_LIST, ModelSource
from agent_kernel.models.length import ContextLimit
from agent_kernel.models.provider_items import CallItem, Item, TextItem
from agent_kernel.models.redaction import Redaction
from agent_kernel.models.retry_policy import Clock, RetryPolicy, SystemClock, Tries, parse_retry_after
from agent_kernel.models.service_faults import Fault, ServiceLabel, explain, is_about_the_name, status_fault
from agent_kernel.models.usage import summed, with_cost_of

if TYPE_CHECKING:
    import httpx2

DRAIN_SECONDS = 0.2
"""How long the rest of a body is waited for, which normally has arrived already."""
MOST_AMENDMENTS = 5
"""The most amended requests in one turn. Each drops something, so more of them would not help."""
MOST_PAUSES = 20
"""The most pauses of the service in one turn."""
MOST_BYTES = 128 * 2**20
"""The largest unpacked answer. Today's longest, 128,000 tokens in an event each, has 50 million bytes."""
MOST_REFUSAL_BYTES = 2**20
TOOLS_LEFT_OUT = (
    "{model} is told of no tools: its chat template takes none, and llama.cpp leaves them out without a word. Choose a "
    "model that takes tools, or give it such a template (--chat-template-file)."
)
MOST_BYTES_PER_TOKEN = 8
"""Of a request in JSON, on average. Prose has four to five."""


class HttpModel:
    """One model of one endpoint."""

    def __init__(
        self,
        wire_name: str,
        client: SharedClient,
        *,
        api: Api | None = None,
        source: ModelSource = NO_LIST,
        takes_tools: bool = True,
        limit: ContextLimit | None = None,
        name: str | None = None,
        retry: RetryPolicy | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`takes_tools` is false if the configuration says so. `limit` is what is learned of the model's context, which
        all that ask it share."""
        self._name = name or wire_name
        self.client = client
        self._api: Api = api or ChatApi()
        self._retry = retry or RetryPolicy()
        self._clock = clock or SystemClock()
        connection = client.connection
        self._label = ServiceLabel(connection.base_url, connection.key_setting, connection.address_setting, wire_name)
        self._limit = limit or ContextLimit()
        self._reports_cost = False
        self.target = Target(wire_name, origin=f"{self._label.where} {wire_name}")
        self._source = source
        self._fallbacks = Fallbacks(self._label, takes_tools=takes_tools, others=source)

    def __repr__(self) -> str:
        return f"HttpModel({self.target.wire_name!r} at {self._label.where})"

    @property
    def name(self) -> str:
        return self._name

    @property
    def facts(self) -> ModelFacts:
        capabilities = self._source.capabilities()
        return ModelFacts(
            wire_name=self.target.wire_name,
            base_url=self.client.connection.base_url,
            images=capabilities.images is True and self._fallbacks.takes_images,
            tools=capabilities.tools is not False and self._fallbacks.takes_tools,
            context_tokens=self._limit.learned or capabilities.context_tokens,
            context_is_learned=self._limit.learned is not None,
            server=capabilities.server,
            reports_cost=self._reports_cost,
        )

    async def learn(self) -> None:
        """See `LearnsFacts`."""
        await self._source.learn()

    @property
    def recorded(self) -> bool:
        return False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelItem]:
        """Stream one turn. Raises `ModelRefused`, `ModelUnavailable` and `ConfigurationError`."""
        redaction = Redaction(self.client.secrets())
        async with aclosing(self._stream(request)) as items:
            async for item in items:
                for clean in redaction.take(item):
                    yield clean

    async def _stream(self, request: ModelRequest) -> AsyncGenerator[ModelItem]:
        request, notice = await self._prepared(request)
        if notice:
            yield Notice(notice)
        body = self._body(request)
        tries, amendments = Tries(self._retry, self._clock), 0
        parts: list[ModelTurn] = []
        while True:
            tries.begin()
            said: list[str] | None = None
            try:
                async with aclosing(self._try(body)) as items:
                    async for item in items:
                        said = _with_words(said, item)
                        if isinstance(item, ModelTurn):
                            self._reports_cost = item.usage.cost is not None
                            parts.append(item)
                        else:
                            yield item
                if not parts[-1].paused or len(parts) > MOST_PAUSES:
                    self._source.used()
                    self._fallbacks.note_answer()
                    self._limit.accept(parts[-1].usage.input_tokens or _fewest_tokens(request, body))
                    yield _joined(parts)
                    return
                request, tries = _continued(request, parts[-1]), Tries(self._retry, self._clock)
                body = self._body(request)
                continue
            except Fault as caught:
                fault = caught
            tries.note_end(fault)
            if said is None and amendments < MOST_AMENDMENTS and (amendment := await self._amend(request, fault)):
                amendments += 1
                tries.take_back()
                request = amendment.request
                body = self._body(request)
                if amendment.notice:
                    yield Notice(amendment.notice)
                continue
            delay = tries.delay_after(fault, self._label, self.client.secrets()) if said is None else None
            if delay is None:  # raised outside of the handler, so that no traceback holds the request and its headers
                raise await self._explained(fault, tries.count, said)
            yield delay
            await tries.wait(delay)

    async def aclose(self) -> None:
        await self.client.aclose()

    def _body(self, request: ModelRequest) -> bytes:
        body = self._api.body(request, self.target)
        try:
            return orjson.dumps(body)
        except TypeError:  # a lone surrogate in a tool's output, or an integer above 64 bits in a schema
            return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")

    async def _prepared(self, request: ModelRequest) -> tuple[ModelRequest, str]:
        if request.tools and not self._fallbacks.takes_tools and not list(self._source.with_tools()):
            await self._source.refresh()
        request, notice = self._fallbacks.prepared(request)
        known = self._source.capabilities()
        if request.tools and known.tools is False and known.server == "llama.cpp":
            notice = TOOLS_LEFT_OUT.format(model=self.target.wire_name)
        return request, notice

    async def _amend(self, request: ModelRequest, fault: Fault) -> Amendment | None:
        if refuses_tools(fault):
            await self._source.refresh()
        amendment = self._api.amended(request, fault, self.target)  # first: it knows more of what is refused
        amendment = amendment or self._fallbacks.amended(request, fault, self._api, self.client.secrets())
        if amendment is not None and amendment.api is not None:
            self._api = amendment.api
        return amendment

    async def _explained(self, fault: Fault, tries: int, said: Sequence[str] | None) -> ModelError:
        fault, api = self._fallbacks.told(fault)
        self._api = api or self._api
        if is_about_the_name(fault):
            await self._source.refresh()
        secrets = self.client.secrets()
        site = replace(self._label, api=self._api.name, server=self.facts.server, proxy=(await self.client.get()).proxy)
        offered = self._source.names()
        words = None if said is None else len("".join(said).split())
        error = explain(fault, site, tries=tries, words=words, secrets=secrets, offered=offered)
        if isinstance(error, ContextExceeded):
            self._limit.refuse(error.limit)
        return error

    async def _try(self, body: bytes) -> AsyncGenerator[ModelItem]:
        reader, size = self._api.reader(self.target), 0
        async with self._respond(body, reader) as response, aclosing(unpacked(response)) as chunks:
            headers = response.headers
            async for chunk in chunks:
                size += len(chunk)
                if size > MOST_BYTES:
                    raise Fault("answer", f"its answer does not end: it has more than {MOST_BYTES:,} bytes")
                for item in reader.feed(chunk):
                    yield item
                if reader.done:
                    await _drain(chunks)
                    break
        for item in reader.finish():
            yield replace(item, usage=with_cost_of(item.usage, headers)) if isinstance(item, ModelTurn) else item

    @asynccontextmanager
    async def _respond(self, body: bytes, reader: AnswerReader) -> AsyncIterator["httpx2.Response"]:
        """The answer, with its body unread. All that can go wrong becomes a `Fault`."""
        client = await self.client.get()

        import aiohttp
        import httpx2

        response: httpx2.Response | None = None
        try:
            response = await client.send(self._api, body)
            if not response.is_success:
                raise self._status_fault(response, await read_whole(response, MOST_REFUSAL_BYTES))
            yield response
        except (httpx2.RequestError, aiohttp.ClientError, OSError) as error:
            if not reader.whole:
                raise network_fault(error, self.client.connection.idle_seconds) from None
        finally:
            if response is not None:
                await response.aclose()

    def _status_fault(self, response: "httpx2.Response", body: bytes) -> Fault:
        return status_fault(
            response.status_code,
            body,
            retry_after=parse_retry_after(response.headers, self._clock.now()),
            should_retry=response.headers.get("x-should-retry"),
        )


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Read to the end of the body, so that the connection can be reused."""
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            async for _ in chunks:
                pass
    except TimeoutError:
        pass


def _with_words(said: list[str] | None, item: ModelItem) -> list[str] | None:
    """The pieces of the answer so far with one more item; `None` until there is something of an answer."""
    if isinstance(item, Notice):
        return said
    if isinstance(item, Retraction):
        return []
    said = [] if said is None else said
    if isinstance(item, TextDelta):
        said.append(item.content)
    return said


def _fewest_tokens(request: ModelRequest, body: bytes) -> int:
    """How many tokens a request has at least, where a service does not count them."""
    return 0 if request.images else len(body) // MOST_BYTES_PER_TOKEN


def _continued(request: ModelRequest, part: ModelTurn) -> ModelRequest:
    """The request with the paused turn appended, for the service to continue it."""
    said: WireMessage = {"role": "assistant", "content": part.content}
    if part.provider is not None:
        said[PROVIDER] = part.provider.to_wire()
    return replace(request, messages=[*request.messages, said])


def _joined(parts: Sequence[ModelTurn]) -> ModelTurn:
    """The parts of a paused turn as one. Only the last has calls, because a service that waits for our tools does not
    pause for its own."""
    if len(parts) == 1:
        return parts[0]
    provider = next((part.provider for part in parts if part.provider is not None), None)
    return replace(
        parts[-1],
        content="".join(part.content for part in parts),
        reasoning="".join(part.reasoning for part in parts),
        usage=summed([part.usage for part in parts]),
        provider=provider and replace(provider, items=tuple(item for part in parts for item in _items(part))),
    )


def _items(part: ModelTurn) -> Sequence[Item]:
    if part.provider is not None:
        return part.provider.items
    return [TextItem(len(part.content)), *map(CallItem, range(len(part.tool_calls)))]
