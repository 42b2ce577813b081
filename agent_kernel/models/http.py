"""A model behind HTTP: requests, retries, fallbacks and streaming, for every API.

Requests and answers go over the connection as bytes; the `Api` object makes the bodies and reads the answers.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace

import orjson

from agent_kernel.errors import ContextExceeded, ModelError
from agent_kernel.models.base import (
    ModelFacts,
    ModelItem,
    ModelRequest,
    ModelTurn,
    Notice,
    TextDelta,
)
from agent_kernel.models.catalogue import ModelList
from agent_kernel.models.client import body_of
from agent_kernel.models.fallbacks import Amendment, Fallbacks, refuses_tools
from agent_kernel.models.length import ContextLimit
from agent_kernel.models.redaction import Redaction, scrub
from agent_kernel.models.retry_policy import RetryPolicy, Tries
from agent_kernel.models.service_faults import Asked, Fault, explain, is_about_the_name
from agent_kernel.models.usage import with_cost_of

DRAIN_SECONDS = 0.2
"""How long the rest of a body is waited for, which normally has arrived already."""
MOST_AMENDMENTS = 5
"""The most amended requests in one turn. Each drops something, so more of them would not help."""
MOST_BYTES = 128 * 2**20
"""The largest answer. Today's longest, 128,000 tokens in an event each, has 50 million bytes."""
TOOLS_LEFT_OUT = (
    "{model} is told of no tools: its chat template takes none, and llama.cpp leaves them out without a word. Choose a "
    "model that takes tools, or give it such a template (--chat-template-file)."
)


class HttpModel:
    """One model of one endpoint."""

    def __init__(
        self,
        wire_name: str,
        models: ModelList,
        *,
        name: str | None = None,
        named: Callable[[str], str] = str,
        limit: ContextLimit | None = None,
        retry: RetryPolicy | None = None,
    ) -> None:
        """`models` are those of its endpoint, and `named` gives their names for `--model`. `limit` is what is learned
        of the model's context, which all that ask it share."""
        self.name = name or wire_name
        self.client = models.client
        self._wire_name = wire_name
        self._models = models
        self._named = named
        self._retry = retry or RetryPolicy()
        self._limit = limit or ContextLimit()
        self._reports_cost = False
        endpoint = self.client.endpoint
        self._fallbacks = Fallbacks(
            wire_name,
            endpoint.where,
            endpoint.first_api,
            takes_tools=endpoint.capabilities.tools is not False,
            others=lambda: [named(other) for other in models.with_tools() if other != wire_name],
        )

    def __repr__(self) -> str:
        return f"HttpModel({self._wire_name!r} at {self.client.endpoint.where})"

    recorded = False

    @property
    def facts(self) -> ModelFacts:
        capabilities = self._models.capabilities(self._wire_name)
        return ModelFacts(
            wire_name=self._wire_name,
            base_url=self.client.endpoint.base_url,
            images=capabilities.images is True and self._fallbacks.takes_images,
            tools=capabilities.tools is not False and self._fallbacks.takes_tools,
            context_tokens=self._limit.learned or capabilities.context_tokens,
            context_is_learned=self._limit.learned is not None,
            server=capabilities.server,
            reports_cost=self._reports_cost,
        )

    async def learn(self) -> None:
        """See `LearnsFacts`."""
        await self._models.learn()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelItem]:
        """Stream one turn. Raises `ModelRefused`, `ModelUnavailable` and `ConfigurationError`."""
        redaction = Redaction(self.client.secrets())
        async with aclosing(self._stream(request)) as items:
            async for item in items:
                for clean in redaction.take(item):
                    yield clean

    async def _stream(self, request: ModelRequest) -> AsyncGenerator[ModelItem]:
        request, notice = self._prepared(request)
        if notice:
            yield Notice(notice)
        body = self._body(request)
        tries, amendments = Tries(self._retry, self.client.clock), 0
        while True:
            tries.begin()
            said: list[str] | None = None
            try:
                async with aclosing(self._try(body)) as items:
                    async for item in items:
                        said = _with_words(said, item)
                        if isinstance(item, ModelTurn):
                            self._note_answer(item)
                        yield item
                return
            except Fault as caught:
                fault = caught
            fault.detail = scrub(fault.detail, self.client.secrets())
            tries.note_end(fault)
            if said is None and amendments < MOST_AMENDMENTS and (amendment := await self._amend(request, fault)):
                amendments += 1
                tries.take_back()
                request = amendment.request
                body = self._body(request)
                if amendment.notice:
                    yield Notice(amendment.notice)
                continue
            delay = tries.delay_after(fault, self._asked) if said is None else None
            if delay is None:  # raised outside of the handler, so that no traceback holds the request and its headers
                raise await self._explained(fault, tries.count, said)
            yield delay
            await tries.wait(delay)

    def _note_answer(self, turn: ModelTurn) -> None:
        self._reports_cost = turn.usage.cost is not None
        self._models.probe(self._wire_name)
        self._fallbacks.note_answer()
        self._limit.accept(turn.usage.input_tokens)

    async def aclose(self) -> None:
        await self._models.aclose()

    @property
    def _asked(self) -> Asked:
        return Asked(
            self.client.endpoint, self._wire_name, self._fallbacks.api.name, self.facts.server, self.client.proxy
        )

    def _body(self, request: ModelRequest) -> bytes:
        body = self._fallbacks.api.body(request)
        try:
            return orjson.dumps(body)
        except TypeError:  # a lone surrogate in a tool's output, or an integer above 64 bits in a schema
            return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")

    def _prepared(self, request: ModelRequest) -> tuple[ModelRequest, str]:
        request, notice = self._fallbacks.prepared(request)
        known = self._models.capabilities(self._wire_name)
        if request.tools and known.tools is False and known.server == "llama.cpp":
            notice = TOOLS_LEFT_OUT.format(model=self._wire_name)
        return request, notice

    async def _amend(self, request: ModelRequest, fault: Fault) -> Amendment | None:
        if refuses_tools(fault):
            await self._models.listing()  # the notice names other models
        return self._fallbacks.amended(request, fault)

    async def _explained(self, fault: Fault, tries: int, said: Sequence[str] | None) -> ModelError:
        fault = self._fallbacks.told(fault)
        if is_about_the_name(fault):
            await self._models.listing()
        offered = {name: self._named(name) for name in self._models.names()}
        words = None if said is None else len("".join(said).split())
        error = explain(fault, self._asked, tries=tries, words=words, offered=offered)
        if isinstance(error, ContextExceeded):
            self._limit.refuse(error.limit)
        return error

    async def _try(self, body: bytes) -> AsyncGenerator[ModelItem]:
        api, size = self._fallbacks.api, 0
        reader = api.reader()
        headers: Mapping[str, str] = {}
        try:
            async with self.client.request(api.path, body, api.name) as response:
                headers, chunks = response.headers, body_of(response)
                async for chunk in chunks:
                    size += len(chunk)
                    if size > MOST_BYTES:
                        raise Fault("answer", f"its answer does not end: it has more than {MOST_BYTES:,} bytes")
                    for item in reader.feed(chunk):
                        yield item
                    if reader.done:
                        await _drain(chunks)
                        break
        except Fault as fault:
            if fault.kind not in ("connection", "cut", "idle") or not reader.whole:
                raise
        for item in reader.finish():
            yield replace(item, usage=with_cost_of(item.usage, headers)) if isinstance(item, ModelTurn) else item


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
    said = [] if said is None else said
    if isinstance(item, TextDelta):
        said.append(item.content)
    return said
