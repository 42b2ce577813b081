"""The HTTP client of one endpoint, built on the `openai` client's address, headers and transport.

The openai client's `post` builds address and headers for each request, which costs three times what sending does
(docs/decisions/direct-model-adapters.md), so they are taken from it once.
"""

import asyncio
import os
import ssl
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import orjson

from agent_kernel.errors import ConfigurationError
from agent_kernel.models.api import Api
from agent_kernel.models.service_faults import Fault, status_fault
from agent_kernel.version import __version__

if TYPE_CHECKING:
    import httpx2
    from httpx2 import URL

PLACEHOLDER_KEY = "no-key-needed"
"""Sent if an endpoint has no key: the client requires one, and local servers ignore it."""
CONNECT_SECONDS = 10.0
CERTIFICATE_SETTINGS = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""The variables that name authorities to trust, each as its users know it from OpenSSL, requests and curl."""
_PROXY_SETTINGS = frozenset({"http_proxy", "https_proxy", "all_proxy"})
CUT = "the connection was closed early"
PIECE_BYTES = 262_144
"""The size of the pieces in which a long request is written, in bytes."""
ACCEPTED = "gzip, deflate"
"""The `Accept-Encoding` of requests. Python's decoders for other encodings can't limit their output."""
_UNPACKED_BYTES = 65_536
_EITHER = zlib.MAX_WBITS | 32
"""Makes zlib accept gzip and zlib headers."""


@dataclass(frozen=True, slots=True)
class Connection:
    """The address and key of one endpoint. The key is read anew for each request and sent to this address only."""

    base_url: str
    key: Callable[[], str | None] = field(repr=False)
    key_setting: str = "OPENAI_API_KEY"
    address_setting: str = "OPENAI_BASE_URL"
    idle_seconds: float = 120.0
    """Seconds without data after which the service counts as gone."""
    ambient: bool = False
    """Whether the client may add what OPENAI_ORG_ID, OPENAI_PROJECT_ID and OPENAI_CUSTOM_HEADERS hold. True only for
    the endpoint that the same environment names."""

    def read_key(self) -> str | None:
        """The key. Raises `ConfigurationError`, without the key, if it can't be sent in a header."""
        key = (self.key() or "").strip()
        if not key:
            return None
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise ConfigurationError(f"{self.key_setting} holds characters that no API key has. Set it again.")
        return key


class Client:
    """The address, headers and transport of an `AsyncOpenAI`. Used in one event loop."""

    def __init__(self, connection: Connection) -> None:
        """Raises `ConfigurationError` for certificates and proxies of the environment that can't be used."""
        with suppress(ImportError):
            # The client looks into this module where it is loaded; another thread, which loads LangGraph, may have
            # loaded half of it.
            import httpx  # noqa: F401
        from httpx2 import Timeout
        from openai import AsyncOpenAI

        self._connection = connection
        timeout = Timeout(connection.idle_seconds, connect=CONNECT_SECONDS)
        self._http = _http_client()
        self._openai = AsyncOpenAI(
            api_key=self._key, base_url=connection.base_url, max_retries=0, timeout=timeout, http_client=self._http
        )
        if not connection.ambient:
            self._openai.organization = self._openai.project = None
            self._openai._custom_headers = {}
        self._base_url = self._openai.base_url
        self.proxy = _proxy_for(self._http, self._base_url)
        """The proxy through which it is asked, without credentials, and the variable that names it; empty for none."""
        theirs = {name: value for name, value in self._openai.default_headers.items() if isinstance(value, str)}
        self._headers = {**theirs, "Accept-Encoding": ACCEPTED}
        self._timeout = timeout.as_dict()
        self._own_headers = {
            "Accept": "application/json",
            "Accept-Encoding": ACCEPTED,
            "Content-Type": "application/json",
            "User-Agent": f"agent-kernel/{__version__}",
        }

    async def send(self, api: Api, body: bytes) -> "httpx2.Response":
        """Request a turn. Returns the response with its body unread.

        Raises `ConfigurationError`, and the errors of `httpx2` and `aiohttp` if the service can't be reached.
        """
        from httpx2 import Request

        headers = await self._all_headers(api)
        content = body if len(body) <= PIECE_BYTES else _in_pieces(body)
        headers["Content-Length"] = str(len(body))
        request = Request(
            "POST", self._url(api), headers=headers, content=content, extensions={"timeout": self._timeout}
        )
        return await self._http.send(request, stream=True)

    async def ask(self, api: Api, path: str, body: Any, most_bytes: int) -> Any:
        """The JSON answer to a GET, or to a POST if there is a body, of at most `most_bytes`.

        Raises `ConfigurationError`, and `Fault` for every other failure.
        """
        import aiohttp
        import httpx2

        headers = await self._all_headers(api)
        url = self._base_url.join(path)
        content = None if body is None else orjson.dumps(body)
        method = "GET" if content is None else "POST"
        extensions = {"timeout": self._timeout}
        request = httpx2.Request(method, url, headers=headers, content=content, extensions=extensions)
        try:
            response = await self._http.send(request, stream=True)
            try:
                return _read_json(response.status_code, await read_whole(response, most_bytes))
            finally:
                await response.aclose()
        except (httpx2.RequestError, aiohttp.ClientError, OSError) as error:
            raise network_fault(error, self._connection.idle_seconds) from None

    async def aclose(self) -> None:
        await self._openai.close()

    def _url(self, api: Api) -> "URL":
        version = self._base_url.path.rstrip("/").rpartition("/")[2]
        return self._base_url.join(api.path.removeprefix(f"{version}/"))

    async def _all_headers(self, api: Api) -> dict[str, str]:
        # Anthropic gets neither the openai client's own headers nor what the environment holds for OpenAI.
        common = self._own_headers if api.name == "messages" else self._headers
        return {"Authorization": f"Bearer {await self._key()}", **api.headers, **common}

    async def _key(self) -> str:
        return self._connection.read_key() or PLACEHOLDER_KEY


async def _in_pieces(body: bytes) -> AsyncIterator[bytes]:
    """The body in pieces, because writing a long one at once would block the event loop."""
    for start in range(0, len(body), PIECE_BYTES):
        yield body[start : start + PIECE_BYTES]


async def unpacked(response: "httpx2.Response") -> AsyncGenerator[bytes]:
    """The body in pieces; those of a compressed one have at most `_UNPACKED_BYTES`, because a few kilobytes may expand
    to gigabytes. Raises `Fault`."""
    packing = response.headers.get("content-encoding", "").strip().lower()
    if packing in ("", "identity"):
        async for piece in response.aiter_raw():
            yield piece
        return
    if packing not in ("gzip", "x-gzip", "deflate"):
        raise Fault("answer", f"its answer is packed as {packing[:40]!r}, which was not asked for")
    unpacker = zlib.decompressobj(_EITHER)
    async for packed in response.aiter_raw():
        while packed:
            try:
                piece = unpacker.decompress(packed, _UNPACKED_BYTES)
            except zlib.error:
                raise Fault("answer", f"its answer can't be unpacked ({packing})", retry=True) from None
            if piece:
                yield piece
            packed = unpacker.unconsumed_tail
            if unpacker.eof:
                packed, unpacker = unpacker.unused_data, zlib.decompressobj(_EITHER)
            elif len(piece) == _UNPACKED_BYTES:
                await asyncio.sleep(0)  # thousands of pieces may come without waiting for the network


async def read_whole(response: "httpx2.Response", most_bytes: int) -> bytes:
    """The whole body. Raises `Fault` if it has more than `most_bytes`."""
    pieces: list[bytes] = []
    size = 0
    async for piece in unpacked(response):
        size += len(piece)
        if size > most_bytes:
            raise Fault("answer", f"its answer is longer than {most_bytes:,} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def _read_json(status: int, body: bytes) -> Any:
    """Raises `Fault`."""
    if not 200 <= status < 300:
        raise status_fault(status, body)
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        raise Fault("answer", "its answer is not JSON") from None


def network_fault(error: BaseException, idle_seconds: float) -> Fault:
    """The fault for a network error, from the root of its chain; the layers above only say "Connection error."."""
    import aiohttp
    import httpx2

    silent = cut = False
    while True:
        silent = silent or isinstance(error, httpx2.ReadTimeout)
        if isinstance(error, aiohttp.ClientHttpProxyError):
            refused = f"the proxy answered {error.status} {error.message}".rstrip()
            return Fault("connection", refused, retry=error.status >= 500)
        cut = cut or isinstance(
            error, aiohttp.ClientPayloadError | aiohttp.ServerDisconnectedError | ConnectionResetError
        )
        if error.__cause__ is None:
            break
        error = error.__cause__
    if silent:  # not tried again: the server may still be working on it, and a second answer costs as much again
        return Fault("idle", f"nothing came for {idle_seconds:g} s")
    if isinstance(error, ssl.SSLCertVerificationError):
        return Fault("certificate", error.verify_message, code=str(error.verify_code))
    if cut:  # what the layers say of it reads like a status: "400, message: Not enough data to satisfy ..."
        return Fault("cut", CUT, retry=True)
    return Fault("connection", str(error) or type(error).__name__, retry=True)


def certificates(environ: Mapping[str, str] = os.environ) -> ssl.SSLContext:
    """The authorities to trust: those that any of `CERTIFICATE_SETTINGS` names, or without one the client's own.

    Raises `ConfigurationError` if a variable names no certificates.
    """
    context: ssl.SSLContext | None = None
    for setting in CERTIFICATE_SETTINGS:
        if not (named := environ.get(setting)):
            continue
        file, folder = (None, named) if Path(named).is_dir() else (named, None)
        try:
            if context is None:
                context = ssl.create_default_context(cafile=file, capath=folder)
            else:
                context.load_verify_locations(file, folder)
        except OSError as error:  # `SSLError` among them
            wrong = "holds no certificates" if isinstance(error, ssl.SSLError) else "can't be read"
            wrong = "is not there" if isinstance(error, FileNotFoundError) else wrong
            raise ConfigurationError(
                f"{setting} names {named!r}, which {wrong}. Set it to a file of certificates (PEM), or not at all."
            ) from None
    return context or _own_authorities()


@cache
def _own_authorities() -> ssl.SSLContext:
    """The authorities that the client brings, which take a tenth of a second to read."""
    from httpx2 import create_ssl_context

    return create_ssl_context()


def _http_client() -> "httpx2.AsyncClient":
    from httpx2 import InvalidURL
    from openai import DefaultAioHttpClient

    verify = certificates()
    try:
        # A redirect would send the conversation to an address that is not configured.
        return DefaultAioHttpClient(follow_redirects=False, verify=verify)
    except (InvalidURL, ValueError):  # its words may hold the proxy's password
        named = " or ".join(name for name in os.environ if name.lower() in _PROXY_SETTINGS) or "The system's settings"
        raise ConfigurationError(f"{named} must name an HTTP proxy, such as http://proxy.example.org:3128.") from None


def _proxy_for(http: "httpx2.AsyncClient", url: "URL") -> str:
    """See `Client.proxy`. Raises `ConfigurationError` for a SOCKS proxy, to which aiohttp would speak HTTP."""
    transport_for = getattr(http, "_transport_for_url", None)  # nothing else tells what NO_PROXY means to it
    proxy = getattr(transport_for(url), "proxy", None) if transport_for is not None else None
    if proxy is None:
        return ""
    names = (f"{url.scheme}_proxy", f"{url.scheme}_proxy".upper(), "all_proxy", "ALL_PROXY")
    setting = next((name for name in names if os.environ.get(name)), "the system's settings")
    if proxy.url.scheme not in ("http", "https"):
        raise ConfigurationError(
            f"{setting} names {proxy.url}, and only HTTP proxies can be used. Set it to one (http://), or add "
            f"{url.host} to NO_PROXY."
        )
    return f"{proxy.url} ({setting})"


class SharedClient:
    """One client per endpoint and event loop, because a connection belongs to the loop that opened it."""

    def __init__(self, connection: Connection, others: Callable[[], Iterable[str]] = tuple) -> None:
        """`others` are the secrets of the host beside this endpoint's key."""
        self.connection = connection
        self._others = others
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Client] = WeakKeyDictionary()

    def secrets(self) -> tuple[str, ...]:
        """The keys and tokens, which no message may show, whichever service repeats them."""
        key = self.connection.read_key()
        return (*((key,) if key else ()), *self._others())

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
