"""What the endpoints offer: their own lists of models, asked for at once, bounded, and kept for a while."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agent_kernel.errors import ConfigurationError
from agent_kernel.models import prices
from agent_kernel.models.apis import make_api
from agent_kernel.models.client import Client, SharedClient
from agent_kernel.models.endpoints import BrokenEndpoint, Endpoint
from agent_kernel.models.faults import Fault, Site, explain
from agent_kernel.models.known import NOTHING_TOLD, Told, told_by_name
from agent_kernel.models.listings import read_ollama, read_rows, rows_of

ANSWER_SECONDS = 5.0
"""How long an endpoint may take for its list, and all that belongs to it."""
KEPT_SECONDS, KEPT_FAULT_SECONDS = 60.0, 5.0
MOST_OFFERS = 1_000
MOST_BYTES = 8 << 20
"""OpenRouter's list of all that there is has one."""
SHOWN_MODELS = 32
"""Of so many models Ollama is asked what they can do: that is one request each."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One model of an endpoint."""

    wire_name: str
    told: Told


@dataclass(frozen=True, slots=True)
class Listing:
    """What one endpoint said."""

    endpoint: str
    offers: tuple[Offer, ...] = ()
    fault: str = ""
    """Why there are none, in a sentence."""
    left_out: int = 0
    """How many more it offers than are kept."""


@dataclass(frozen=True, slots=True)
class _Kept:
    endpoint: Endpoint
    listing: Listing
    until: float


class Catalogue:
    """Used from one event loop; `told`, `names` and `with_tools` from any thread."""

    def __init__(self, client: Callable[[Endpoint], SharedClient]) -> None:
        self._client = client
        self._kept: dict[str, _Kept] = {}
        self._asking: dict[str, asyncio.Lock] = {}
        self._hearing: set[asyncio.Task[None]] = set()
        self._heard: dict[str, tuple[Endpoint, Mapping[str, Told]]] = {}

    async def listings(self, endpoints: Iterable[Endpoint | BrokenEndpoint], *, fresh: bool = False) -> list[Listing]:
        """One for each endpoint; those that fail say why."""
        return list(await asyncio.gather(*(self._listing(endpoint, fresh) for endpoint in endpoints)))

    def hear(self, endpoint: Endpoint) -> None:
        """Ask a local server, once and in the background, what its models take: nobody else knows."""
        kept = self._kept.get(endpoint.name)
        if endpoint.provider is not None or not endpoint.is_local or (kept is not None and kept.endpoint == endpoint):
            return
        task = asyncio.get_running_loop().create_task(self._hear(endpoint))
        self._hearing.add(task)
        task.add_done_callback(self._hearing.discard)

    async def _hear(self, endpoint: Endpoint) -> None:
        await self.listings([endpoint])

    async def aclose(self) -> None:
        """End what is asked in the background of this event loop."""
        loop = asyncio.get_running_loop()
        own = [task for task in self._hearing if task.get_loop() is loop]
        for task in own:
            task.cancel()
        await asyncio.gather(*own, return_exceptions=True)

    def told(self, endpoint: Endpoint, wire_name: str) -> Told:
        """What is known of a model: from the configuration, from the service, where it was heard, and by its name."""
        heard = self._heard_of(endpoint).get(wire_name, NOTHING_TOLD)
        return endpoint.told.over(heard).over(told_by_name(wire_name, endpoint.base_url))

    def names(self, endpoint: Endpoint) -> list[str]:
        """The endpoint's models, as far as they were heard of."""
        return list(self._heard_of(endpoint))

    def with_tools(self, endpoint: Endpoint) -> list[str]:
        """The endpoint's models that take tools, as far as they were heard of."""
        return [name for name, told in self._heard_of(endpoint).items() if told.tools]

    def _heard_of(self, endpoint: Endpoint) -> Mapping[str, Told]:
        of, heard = self._heard.get(endpoint.name, (None, {}))
        return heard if of == endpoint else {}

    async def _listing(self, endpoint: Endpoint | BrokenEndpoint, fresh: bool) -> Listing:
        if isinstance(endpoint, BrokenEndpoint):
            return Listing(endpoint.name, fault=endpoint.fault)
        async with self._asking.setdefault(endpoint.name, asyncio.Lock()):  # who comes second finds what the first got
            kept = self._kept.get(endpoint.name)
            if kept is not None and kept.endpoint == endpoint and not fresh and time.monotonic() < kept.until:
                return kept.listing
            return await self._ask_and_keep(endpoint)

    async def _ask_and_keep(self, endpoint: Endpoint) -> Listing:
        listing = await self._ask(endpoint)
        seconds = KEPT_FAULT_SECONDS if listing.fault else KEPT_SECONDS
        self._kept[endpoint.name] = _Kept(endpoint, listing, time.monotonic() + seconds)
        if not listing.fault:  # what was heard stays known while the service is away
            self._heard[endpoint.name] = (endpoint, {offer.wire_name: offer.told for offer in listing.offers})
        return listing

    async def _ask(self, endpoint: Endpoint) -> Listing:
        connection = endpoint.connection()
        site = Site(connection.base_url, connection.key_setting, connection.address_setting, "its models")
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                client = await self._client(endpoint).get()
                found = await _Asker(client, endpoint).offers()
        except TimeoutError:
            return Listing(endpoint.name, fault=f"{site.where} did not answer within {ANSWER_SECONDS:g} s.")
        except Fault as fault:
            if fault.status in (404, 405):
                fault = Fault("answer", f"it has no list of models ({fault.status})")
            secrets = self._client(endpoint).secrets()
            error = explain(fault, site, tries=1, said_something=False, secrets=secrets)
            return Listing(endpoint.name, fault=str(error))
        except ConfigurationError as wrong:
            return Listing(endpoint.name, fault=str(wrong))
        await asyncio.to_thread(prices.load)
        offers = [
            Offer(name, endpoint.told.over(said).over(told_by_name(name, endpoint.base_url)))
            for name, said in found[:MOST_OFFERS]
        ]
        return Listing(endpoint.name, tuple(offers), left_out=len(found) - len(offers))


class _Asker:
    """Asks one endpoint what it offers."""

    def __init__(self, client: Client, endpoint: Endpoint) -> None:
        self._client = client
        self._api = make_api(endpoint.first_api)
        self._endpoint = endpoint

    async def offers(self) -> list[tuple[str, Told]]:
        """Raises `Fault` and `ConfigurationError`."""
        anthropic = self._endpoint.provider == "Anthropic"
        rows = rows_of(await self._get("models?limit=1000" if anthropic else "models"))
        found = list(read_rows(rows))
        if self._endpoint.provider is not None or not self._endpoint.is_local:
            return found
        if any(said != NOTHING_TOLD for _, said in found):
            return found
        return await self._own_lists([name for name, _ in found]) or found

    async def _own_lists(self, names: list[str]) -> list[tuple[str, Told]]:
        """What a local server says beside the list that has names alone: LM Studio and Ollama."""
        studio, running = await asyncio.gather(self._try("../api/v0/models"), self._try("../api/ps"))
        rows = rows_of(studio)
        if rows and any("state" in row for row in rows):
            return list(read_rows(rows))
        if not isinstance(running, dict) or "models" not in running:
            return []
        loaded = {row.get("model") or row.get("name"): row for row in rows_of(running)}
        shown = names[:SHOWN_MODELS]
        answers = await asyncio.gather(*(self._try("../api/show", {"model": name}) for name in shown))
        said = {name: read_ollama(answer, loaded.get(name)) for name, answer in zip(shown, answers, strict=True)}
        return [(name, said.get(name, NOTHING_TOLD)) for name in names]

    async def _get(self, path: str, body: dict[str, Any] | None = None) -> Any:
        return await self._client.ask(self._api, path, body, MOST_BYTES)

    async def _try(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """`None` where the server has no such thing."""
        try:
            return await self._get(path, body)
        except Fault:
            return None
