"""Proxies and certificates of the environment: what a user reads where one stands between them and a model."""

import asyncio
import ipaddress
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509  # comes with jupyterhub
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from agent_kernel.errors import ConfigurationError, ModelError, ModelRefused, ModelUnavailable
from agent_kernel.models.client import CERTIFICATE_SETTINGS
from agent_kernel.testing import VirtualClock, say
from agent_kernel.testing.wire import chat
from tests.core.models.model_fixtures import model_at, turn_of

PASSWORD = "wine-and-roses"
SQUID = b"<html><head><title>ERROR: The requested URL could not be retrieved</title></head><body><h1>ERROR</h1></body>"
with_password = pytest.mark.filterwarnings("ignore:.*(BasicAuth|proxy_auth).* deprecated:DeprecationWarning")
"""The openai client's transport gives aiohttp a proxy's password in a form that goes away."""
Answer = Callable[[str], bytes]
"""What a server sends for a request's first line."""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the proxies and authorities of the machine."""
    proxies = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
    for name in (*CERTIFICATE_SETTINGS, *proxies, *map(str.upper, proxies)):
        monkeypatch.delenv(name, raising=False)


def http(status: str, body: bytes = b"", content_type: str = "text/html") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
    return f"{head}\r\n".encode() + body


@asynccontextmanager
async def serving(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[tuple[int, list[str]]]:
    """A server that reads a request and answers it. Yields its port, and the first lines of its requests."""
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next((line for line in head.splitlines() if line.lower().startswith("content-length:")), ": 0")
        await reader.readexactly(int(length.split(":")[1]))
        asked.append(head.splitlines()[0])
        writer.write(answer(asked[-1]))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1], asked


async def ask(base_url: str, clock: VirtualClock | None = None) -> str:
    model = model_at(base_url, clock=clock)
    try:
        return (await turn_of(model)).content
    finally:
        await model.aclose()


async def refused(base_url: str, kind: type[Exception] = ModelError) -> str:
    with pytest.raises(kind) as caught:
        await ask(base_url)
    assert PASSWORD not in str(caught.value)
    return str(caught.value)


@with_password
@pytest.mark.parametrize("setting", ["HTTP_PROXY", "ALL_PROXY"])
async def test_a_proxy_that_is_not_there_is_named_without_its_password(
    setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(lambda _: b"") as (port, _):
        pass
    monkeypatch.setenv(setting, f"http://ada:{PASSWORD}@127.0.0.1:{port}")
    said = await refused("http://localhost:11434/v1", ModelUnavailable)
    assert "http://localhost:11434/v1 can't be reached after 4 tries" in said
    assert f"It was asked through the proxy http://127.0.0.1:{port} ({setting})." in said
    assert "For this address that is hardly meant: add localhost to NO_PROXY where Jupyter is started." in said
    assert "NO_PROXY" not in await refused("http://models.example.org/v1")


@with_password
@pytest.mark.parametrize(("status", "tries"), [("407 Proxy Authentication Required", 1), ("502 Bad Gateway", 4)])
async def test_a_proxy_that_lets_nobody_through_is_not_the_network(
    status: str, tries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(lambda _: http(status, SQUID)) as (port, asked):
        monkeypatch.setenv("HTTPS_PROXY", f"http://ada:{PASSWORD}@127.0.0.1:{port}")
        said = await refused("https://models.example.org/v1", ModelUnavailable)
    assert asked == ["CONNECT models.example.org:443 HTTP/1.1"] * tries
    assert f"the proxy answered {status}" in said
    assert f"It was asked through the proxy http://127.0.0.1:{port} (HTTPS_PROXY)." in said


async def test_a_proxy_that_can_not_be_used_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", f"socks5://ada:{PASSWORD}@127.0.0.1:1080")
    said = await refused("http://localhost:11434/v1", ConfigurationError)
    assert "ALL_PROXY must name an HTTP proxy, such as http://" in said


class Authority:
    """A certificate that signs itself, for 127.0.0.1, and a server that shows it."""

    def __init__(self, folder: Path, *, days: int = 1) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"An authority of our {folder.name}")])
        end = datetime.now(UTC) + timedelta(days=days)
        here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        certificate = (
            x509.CertificateBuilder(
                name, name, key.public_key(), x509.random_serial_number(), end - timedelta(days=9), end
            )
            .add_extension(here, critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, SHA256())
        )
        self.file, own = folder / "authority.pem", folder / "key.pem"
        self.file.write_bytes(certificate.public_bytes(Encoding.PEM))
        own.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(self.file, own)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[tuple[int, list[str]]]:
        reply = chat.streamed(say("Hi"))
        async with serving(lambda _: http("200 OK", reply.body, "text/event-stream"), self._context) as served:
            yield served


async def test_a_certificate_that_is_not_trusted_is_said_at_once_with_the_setting_that_trusts_it(
    tmp_path: Path,
) -> None:
    clock = VirtualClock()
    async with Authority(tmp_path).serving() as (port, asked):
        with pytest.raises(ModelRefused, match=r"is not trusted here: self-signed .* set SSL_CERT_FILE to the file"):
            await ask(f"https://127.0.0.1:{port}/v1", clock)
    assert (clock.slept, asked) == ([], [])


@pytest.mark.parametrize("setting", CERTIFICATE_SETTINGS)
async def test_an_authority_of_ones_own_is_trusted_by_the_variable_of_any_client(
    setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    monkeypatch.setenv(setting, str(authority.file))
    async with authority.serving() as (port, _):
        assert await ask(f"https://127.0.0.1:{port}/v1") == "Hi"


@pytest.mark.parametrize(("name", "wrong"), [("gone.pem", "is not there"), ("empty.pem", "holds no certificates")])
async def test_a_file_of_certificates_that_is_none_is_said_in_one_line(
    name: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty.pem").touch()
    path = str(tmp_path / name)
    monkeypatch.setenv("SSL_CERT_FILE", path)
    said = await refused("https://localhost:11434/v1", ConfigurationError)
    assert (
        said == f"SSL_CERT_FILE names {path!r}, which {wrong}. Set it to a file of certificates (PEM), or not at all."
    )
