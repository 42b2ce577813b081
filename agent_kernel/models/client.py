"""One endpoint's `openai` client, and how a request goes out over it.

The client knows the address, the headers and the transport; its `post` makes them anew for each request, which costs
three times what sending does (figures in ARCHITECTURE.md), so they are taken from it once.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import agent_kernel
from agent_kernel.errors import ConfigurationError
from agent_kernel.models.api import Api

if TYPE_CHECKING:
    import httpx2

PLACEHOLDER_KEY = "no-key-needed"
"""Sent where an endpoint has no key: local servers ignore it, and the client insists on one."""
CONNECT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Connection:
    """Where one endpoint is and how its key is found. The key is read anew for each request, and sent nowhere else."""

    base_url: str
    key: Callable[[], str | None] = field(repr=False)
    key_setting: str = "OPENAI_API_KEY"
    address_setting: str = "OPENAI_BASE_URL"
    idle_seconds: float = 120.0
    """Silence between two reads after which the service counts as gone."""
    ambient: bool = False
    """Whether the client may add what OPENAI_ORG_ID, OPENAI_PROJECT_ID and OPENAI_CUSTOM_HEADERS hold. True only for
    the endpoint that the same environment names."""

    def read_key(self) -> str | None:
        """Raises `ConfigurationError` for a key that can't be sent in a header, without showing it."""
        key = (self.key() or "").strip()
        if not key:
            return None
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise ConfigurationError(f"{self.key_setting} holds characters that no API key has. Set it again.")
        return key


class Client:
    """The address, headers and transport of an `AsyncOpenAI`. Used in one event loop."""

    def __init__(self, connection: Connection) -> None:
        from httpx2 import Timeout
        from openai import AsyncOpenAI, DefaultAioHttpClient

        self._connection = connection
        timeout = Timeout(connection.idle_seconds, connect=CONNECT_SECONDS)
        # A redirect would carry the conversation to an address that nobody configured.
        self._http = DefaultAioHttpClient(follow_redirects=False)
        self._openai = AsyncOpenAI(
            api_key=self._key, base_url=connection.base_url, max_retries=0, timeout=timeout, http_client=self._http
        )
        if not connection.ambient:
            self._openai.organization = self._openai.project = None
            self._openai._custom_headers = {}
        self._base_url = self._openai.base_url
        self._headers = {name: value for name, value in self._openai.default_headers.items() if isinstance(value, str)}
        self._timeout = timeout.as_dict()
        self._own_headers = {
            "Accept": "application/json",
            "Content-Type": "application/json",
            "User-Agent": f"agent-kernel/{agent_kernel.__version__}",
        }

    async def send(self, api: Api, body: bytes) -> "httpx2.Response":
        """Ask for a turn; the answer's body is still to be read.

        Raises `ConfigurationError`, and what `httpx2` and `aiohttp` raise where nobody answers.
        """
        from httpx2 import Request

        # What the client says of itself, and what the environment holds for OpenAI, is nothing for Anthropic.
        common = self._own_headers if api.name == "messages" else self._headers
        headers = {**api.headers(await self._key()), **common}
        version = self._base_url.path.rstrip("/").rpartition("/")[2]
        url = self._base_url.join(api.path.removeprefix(f"{version}/"))
        request = Request("POST", url, headers=headers, content=body, extensions={"timeout": self._timeout})
        return await self._http.send(request, stream=True)

    async def aclose(self) -> None:
        await self._openai.close()

    async def _key(self) -> str:
        return self._connection.read_key() or PLACEHOLDER_KEY


class SharedClient:
    """One client per endpoint and event loop: a connection belongs to the loop that opened it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Client] = WeakKeyDictionary()

    async def get(self) -> Client:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:  # in a thread: the first import takes half a second, reading the certificates some more
            client = self._clients.setdefault(loop, await asyncio.to_thread(Client, self.connection))
        return client

    async def aclose(self) -> None:
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()
