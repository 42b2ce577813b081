"""Requests to one endpoint over the `openai` package's transport. Its key is read again for each request and sent to
its address only.

Requests and answers are bytes. The client of that package is not used: it reads a refusal whole, however long it is.
"""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import getproxies, proxy_bypass

import orjson

from agent_kernel.errors import ConfigurationError
from agent_kernel.models.base import Clock
from agent_kernel.models.endpoints import OPENAI, Endpoint
from agent_kernel.models.retry_policy import parse_retry_after
from agent_kernel.models.service_faults import Fault, status_fault
from agent_kernel.protocol.vocabulary import ApiName
from agent_kernel.version import __version__

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response

PLACEHOLDER_KEY = "no-key-needed"
"""Sent if an endpoint has no key: some servers refuse a request without one, whatever it is."""
CONNECT_SECONDS = 10.0
PIECE_BYTES = 262_144
"""The size of the pieces in which a long request is written, in bytes."""
MOST_REFUSAL_BYTES = 2**20
CERTIFICATE_SETTINGS = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""The variables that name authorities to trust, each as its users know it from OpenSSL, requests and curl."""
CUT = "the connection was closed early"
_HEADERS = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "Content-Type": "application/json",
    "User-Agent": f"agent-kernel/{__version__}",
}
_ANTHROPIC_HEADERS = {"anthropic-version": "2026-10-21"}
_OPENAI_HEADERS = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
_CUSTOM_HEADERS = "OPENAI_CUSTOM_HEADERS"
"""The variables that OpenAI's own client reads; the last has a header a line, a gateway's own authorization among them.
They are for the endpoint that the same environment names."""


class Client:
    """Its connections belong to one event loop, that of the first request."""

    def __init__(
        self, endpoint: Endpoint, *, others: Callable[[], Iterable[str]] = tuple, clock: Clock | None = None
    ) -> None:
        """`others` are the secrets of the host beside this endpoint's key."""
        self.endpoint = endpoint
        self.clock = clock or Clock()
        self._others = others
        self._transport: AsyncClient | None = None
        self.proxy = ""
        """The proxy through which it is asked, without credentials, and the variable that names it; empty for none."""

    def secrets(self) -> tuple[str, ...]:
        """The keys and tokens, which no message may show, whichever service repeats them."""
        key = self.endpoint.read_key()
        return (*((key,) if key else ()), *self._others())

    async def open(self) -> "AsyncClient":
        """The transport. Raises `ConfigurationError` for certificates and proxies of the environment that can't be
        used."""
        if self._transport is None:
            # In a thread: the first import takes half a second, reading the certificates some more.
            made = await asyncio.to_thread(self._make)
            self._transport = self._transport or made
        return self._transport

    def _make(self) -> "AsyncClient":
        from httpx2 import Timeout
        from openai import DefaultAioHttpClient

        proxy, self.proxy = _proxy_for(self.endpoint)
        return DefaultAioHttpClient(
            verify=certificates(),
            proxy=proxy,
            trust_env=False,
            follow_redirects=False,  # the conversation would go to an address that is not configured
            timeout=Timeout(self.endpoint.idle_seconds, connect=CONNECT_SECONDS),
        )

    def _headers(self, api: ApiName) -> dict[str, str]:
        headers = {**_HEADERS, "Authorization": f"Bearer {self.endpoint.read_key() or PLACEHOLDER_KEY}"}
        if api == "messages":
            return headers | _ANTHROPIC_HEADERS
        if self.endpoint.ambient and self.endpoint.name == OPENAI:
            headers |= {name: os.environ[setting] for name, setting in _OPENAI_HEADERS.items() if setting in os.environ}
            lines = (line.partition(":") for line in os.environ.get(_CUSTOM_HEADERS, "").splitlines())
            headers |= {name.strip().title(): value.strip() for name, colon, value in lines if colon}
        return headers

    @asynccontextmanager
    async def request(self, path: str, body: bytes | None, api: ApiName) -> AsyncIterator["Response"]:
        """The answer to a POST, or to a GET if there is no body; its own body is unread. `path` is below the base URL.

        Raises `ConfigurationError`, and `Fault` for every other failure, a refusal among them.
        """
        transport = await self.open()
        import aiohttp
        import httpx2

        base = httpx2.URL(f"{self.endpoint.base_url.rstrip('/')}/")
        version = base.path.rstrip("/").rpartition("/")[2]  # providers document paths with and without it
        headers = self._headers(api)
        if body is not None:
            headers["Content-Length"] = str(len(body))
        request = transport.build_request(
            "GET" if body is None else "POST",
            base.join(path.removeprefix(f"{version}/")),
            content=None if body is None else _in_pieces(body),
            headers=headers,
        )
        try:
            response = await transport.send(request, stream=True)
            try:
                if not response.is_success:
                    raise status_fault(
                        response.status_code,
                        await read_whole(response, MOST_REFUSAL_BYTES),
                        retry_after=parse_retry_after(response.headers, self.clock.now()),
                        should_retry=response.headers.get("x-should-retry"),
                    )
                yield response
            finally:
                await response.aclose()
        except (httpx2.RequestError, aiohttp.ClientError, OSError) as error:
            raise network_fault(error, self.endpoint.idle_seconds) from None

    async def ask(self, path: str, body: Any, most_bytes: int) -> Any:
        """The JSON answer to a request, of at most `most_bytes`. Raises as `request` does."""
        content = None if body is None else orjson.dumps(body)
        async with self.request(path, content, self.endpoint.first_api) as response:
            try:
                return orjson.loads(await read_whole(response, most_bytes))
            except orjson.JSONDecodeError:
                raise Fault("answer", "its answer is not JSON") from None

    async def aclose(self) -> None:
        if self._transport is not None:
            await self._transport.aclose()
            self._transport = None


async def _in_pieces(body: bytes) -> AsyncIterator[bytes]:
    """The body in pieces, because writing a long one at once would block the event loop."""
    for start in range(0, len(body), PIECE_BYTES):
        yield body[start : start + PIECE_BYTES]


def body_of(response: "Response") -> AsyncIterator[bytes]:
    """The body in pieces, unpacked: some proxies compress what was not asked for. Raises `Fault` for a packing whose
    decoder does not limit what a few kilobytes expand to."""
    packing = response.headers.get("content-encoding", "").strip().lower()
    if packing not in ("", "identity", "gzip", "deflate"):
        raise Fault("answer", f"its answer is packed as {packing[:40]!r}, which was not asked for")
    return response.aiter_bytes()


async def read_whole(response: "Response", most_bytes: int) -> bytes:
    """The whole body. Raises `Fault` if it has more than `most_bytes`."""
    pieces: list[bytes] = []
    size = 0
    async for piece in body_of(response):
        size += len(piece)
        if size > most_bytes:
            raise Fault("answer", f"its answer is longer than {most_bytes:,} bytes")
        pieces.append(piece)
    return b"".join(pieces)


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
        return Fault("certificate", error.verify_message)
    if cut:  # what the layers say of it reads like a status: "400, message: Not enough data to satisfy ..."
        return Fault("cut", CUT, retry=True)
    return Fault("connection", str(error) or type(error).__name__, retry=True)


def certificates(environ: Mapping[str, str] = os.environ) -> ssl.SSLContext:
    """The authorities to trust: those that any of `CERTIFICATE_SETTINGS` names, or without one the system's.

    Raises `ConfigurationError` if a variable names no certificates.
    """
    named = {setting: environ[setting] for setting in CERTIFICATE_SETTINGS if environ.get(setting)}
    if not named:
        from httpx2 import create_ssl_context

        return create_ssl_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for setting, path in named.items():
        try:
            context.load_verify_locations(*((None, path) if Path(path).is_dir() else (path, None)))
        except OSError as error:  # `SSLError` among them
            wrong = "holds no certificates" if isinstance(error, ssl.SSLError) else "can't be read"
            wrong = "is not there" if isinstance(error, FileNotFoundError) else wrong
            raise ConfigurationError(
                f"{setting} names {path!r}, which {wrong}. Set it to a file of certificates (PEM), or not at all."
            ) from None
    return context


def _proxy_for(endpoint: Endpoint) -> tuple[str | None, str]:
    """The proxy that the environment names for an address, and what `Client.proxy` says of it. Raises
    `ConfigurationError`, without the proxy's password, for one that does not speak HTTP."""
    proxies, scheme = getproxies(), endpoint.parts.scheme
    proxy = proxies.get(scheme) or proxies.get("all")
    if not proxy or proxy_bypass(endpoint.parts.netloc.rpartition("@")[2]) or proxy_bypass(endpoint.host):
        return None, ""
    from yarl import URL

    names = (f"{scheme}_proxy", f"{scheme}_proxy".upper(), "all_proxy", "ALL_PROXY")
    setting = next((name for name in names if os.environ.get(name)), "the system's settings")
    try:
        url = URL(proxy if "://" in proxy else f"http://{proxy}")
    except ValueError:
        url = URL()
    if url.scheme not in ("http", "https"):
        raise ConfigurationError(
            f"{setting} must name an HTTP proxy, such as http://proxy.example.org:3128. Set it to one, or add "
            f"{endpoint.host} to NO_PROXY."
        )
    return str(url), f"{url.with_user(None)} ({setting})"
