"""Requests to one endpoint over aiohttp. Its key is read anew for each request and sent to its address only."""

import asyncio
import io
import os
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import getproxies, proxy_bypass

import orjson

from agent_kernel.errors import ConfigurationError
from agent_kernel.models.endpoints import OPENAI, Endpoint
from agent_kernel.models.retry_policy import Clock, SystemClock, parse_retry_after
from agent_kernel.models.service_faults import Fault, status_fault
from agent_kernel.protocol.vocabulary import ApiName
from agent_kernel.version import __version__

if TYPE_CHECKING:
    import aiohttp

PLACEHOLDER_KEY = "no-key-needed"
"""Sent if an endpoint has no key: some servers refuse a request without one, whatever it is."""
CONNECT_SECONDS = 10.0
MOST_REFUSAL_BYTES = 2**20
CERTIFICATE_SETTINGS = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""The variables that name authorities to trust, each as its users know it from OpenSSL, requests and curl."""
CUT = "the connection was closed early"
_HEADERS = {
    "Accept": "application/json",
    "Accept-Encoding": "gzip, deflate",
    "Content-Type": "application/json",
    "User-Agent": f"agent-kernel/{__version__}",
}
_ANTHROPIC = {"anthropic-version": "2026-10-21"}
_OPENAI = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}


class Client:
    """Its connections belong to one event loop, that of the first request."""

    def __init__(
        self, endpoint: Endpoint, *, others: Callable[[], Iterable[str]] = tuple, clock: Clock | None = None
    ) -> None:
        """`others` are the secrets of the host beside this endpoint's key."""
        self.endpoint = endpoint
        self.clock = clock or SystemClock()
        self._others = others
        self._session: aiohttp.ClientSession | None = None
        self._proxy: str | None = None
        self.proxy = ""
        """The proxy through which it is asked, without credentials, and the variable that names it; empty for none."""

    def secrets(self) -> tuple[str, ...]:
        """The keys and tokens, which no message may show, whichever service repeats them."""
        key = self.endpoint.read_key()
        return (*((key,) if key else ()), *self._others())

    async def open(self) -> "aiohttp.ClientSession":
        """Raises `ConfigurationError` for certificates and proxies of the environment that can't be used."""
        if self._session is None:
            # In a thread: the first import takes a fifth of a second, reading the certificates some more.
            verify = await asyncio.to_thread(self._prepare)
            import aiohttp

            connector = aiohttp.TCPConnector(limit=0, ssl=verify)
            seconds = aiohttp.ClientTimeout(
                total=None, sock_connect=CONNECT_SECONDS, sock_read=self.endpoint.idle_seconds
            )
            self._session = self._session or aiohttp.ClientSession(connector=connector, timeout=seconds)
        return self._session

    def _prepare(self) -> ssl.SSLContext | bool:
        import aiohttp  # noqa: F401

        self._proxy, self.proxy = _proxy_for(self.endpoint)
        return True if self.endpoint.is_near else certificates()

    @asynccontextmanager
    async def request(self, path: str, body: bytes | None, api: ApiName) -> AsyncIterator["aiohttp.ClientResponse"]:
        """The answer to a POST, or to a GET if there is no body; its own body is unread. `path` is below the base URL.

        Raises `ConfigurationError`, and `Fault` for every other failure, a refusal among them.
        """
        session = await self.open()
        import aiohttp
        from yarl import URL

        base = URL(f"{self.endpoint.base_url.rstrip('/')}/")
        version = base.parts[-2]  # which is in the path as well where providers document either form
        headers = {**_HEADERS, **(_ANTHROPIC if api == "messages" else self._openai_headers())}
        if base.user is None:
            headers["Authorization"] = f"Bearer {self.endpoint.read_key() or PLACEHOLDER_KEY}"
        try:
            async with session.request(
                "GET" if body is None else "POST",
                base.join(URL(path.removeprefix(f"{version}/"), encoded=True)),
                data=None if body is None else io.BytesIO(body),  # is written in pieces, so a long one blocks nothing
                headers=headers,
                proxy=self._proxy,
                allow_redirects=False,  # the conversation would go to an address that is not configured
            ) as response:
                if not 200 <= response.status < 300:
                    raise status_fault(
                        response.status,
                        await read_whole(response, MOST_REFUSAL_BYTES),
                        retry_after=parse_retry_after(response.headers, self.clock.now()),
                        should_retry=response.headers.get("x-should-retry"),
                    )
                yield response
        except (aiohttp.ClientError, OSError) as error:
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
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _openai_headers(self) -> dict[str, str]:
        """What the variables of OpenAI's own client add, at the endpoint that the same environment names."""
        if not (self.endpoint.ambient and self.endpoint.name == OPENAI):
            return {}
        own = (line.partition(":") for line in os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n"))
        named = {header: os.environ.get(setting, "") for header, setting in _OPENAI.items()}
        named |= {name.strip(): value for name, colon, value in own if colon}
        return {name: value.strip() for name, value in named.items() if value.strip()}


async def read_whole(response: "aiohttp.ClientResponse", most_bytes: int) -> bytes:
    """The whole body. Raises `Fault` if it has more than `most_bytes`."""
    pieces: list[bytes] = []
    size = 0
    async for piece in response.content.iter_any():
        size += len(piece)
        if size > most_bytes:
            raise Fault("answer", f"its answer is longer than {most_bytes:,} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def network_fault(error: Exception, idle_seconds: float) -> Fault:
    import aiohttp

    wrong = getattr(error, "certificate_error", None)
    if isinstance(wrong, ssl.SSLCertVerificationError):
        return Fault("certificate", wrong.verify_message, code=str(wrong.verify_code))
    match error:
        case aiohttp.SocketTimeoutError():
            # Not tried again: the server may still be working on it, and a second answer costs as much again.
            return Fault("idle", f"nothing came for {idle_seconds:g} s")
        case aiohttp.ClientHttpProxyError():
            refused = f"the proxy answered {error.status} {error.message}".rstrip()
            return Fault("connection", refused, retry=error.status >= 500)
        case aiohttp.ClientResponseError():
            return Fault("answer", error.message)
        case aiohttp.ClientPayloadError() | aiohttp.ServerDisconnectedError() | ConnectionResetError():
            # What aiohttp says of it reads like a status: "400, message: Not enough data to satisfy ..."
            return Fault("cut", CUT, retry=True)
        case _:
            cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
            return Fault("connection", str(cause) or type(cause).__name__, retry=True)


def certificates(environ: Mapping[str, str] = os.environ) -> ssl.SSLContext:
    """The authorities to trust: those that any of `CERTIFICATE_SETTINGS` names, or without one the system's.

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
    if context is None:
        from httpx2 import create_ssl_context

        context = create_ssl_context()
    return context


def _proxy_for(endpoint: Endpoint) -> tuple[str | None, str]:
    """The proxy that the environment names for an address, and what `Client.proxy` says of it. Raises
    `ConfigurationError`, without the proxy's password, for one that does not speak HTTP."""
    proxies, scheme = getproxies(), endpoint.parts.scheme
    proxy = proxies.get(scheme) or proxies.get("all")
    if not proxy or proxy_bypass(endpoint.parts.netloc.rpartition("@")[2]):
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
