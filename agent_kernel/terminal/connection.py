"""The HTTP side of `agent-kernel chat`: which server, its routes, and the stream of events.

A token goes into one header of requests to that server. It is in no address, message or error.
"""

import asyncio
import json
import os
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, quote, urlsplit, urlunsplit

import aiohttp
from yarl import URL

from agent_kernel.errors import AgentKernelError
from agent_kernel.models.sse import EventReader
from agent_kernel.runtime.clients.session import REPLAYED_EVENTS

API = "agent-kernel/api"
ANSWER_SECONDS = 60.0
CONNECT_SECONDS = 5.0
SILENCE_SECONDS = 45.0
"""A stream that is silent for longer is lost: the server sends a comment each 15 seconds."""
RETRY_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0)
NO_TOKEN = "The server does not take this token, or wants one: set JUPYTER_TOKEN."
OTHER_VERSION = "The server has another version of Agent Kernel, which can't be read."
FORBIDDEN = "The server lets nobody in without its token (JUPYTER_TOKEN), or lets you only look."
Frame = dict[str, Any]


class ChatError(AgentKernelError):
    """Ends the command, with a message that says what to do."""


class Refused(AgentKernelError):
    """The server's answer to what was asked: nothing was done."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Lost(AgentKernelError):
    """The server can't be reached."""


@dataclass(frozen=True, slots=True)
class Place:
    """A Jupyter server."""

    url: str
    """The base URL, without a token."""
    token: str = field(default="", repr=False)
    root: Path | None = None
    """Its folder, if that is on this machine."""


def running_servers() -> list[Place]:
    """The user's servers on this machine, as `jupyter server list` finds them; the newest last."""
    from jupyter_server.serverapp import list_running_servers

    found = []
    for info in list_running_servers(log=None):
        url = str(info.get("url", ""))
        if url.startswith(("http://", "https://")):  # others listen on a socket file
            root = info.get("root_dir") or info.get("notebook_dir")
            found.append(Place(url, str(info.get("token") or ""), Path(root) if root else None))
    return found


def place_of(url: str) -> Place:
    """A server by its address, which may be one that Jupyter has printed, with its token. Raises `ChatError`."""
    try:
        parts = urlsplit(url if "//" in url else f"http://{url}")
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ChatError("--server is the address of a Jupyter server, such as http://localhost:8888/")
    path = parts.path.split("/lab")[0].split("/tree")[0].rstrip("/") + "/"
    address = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], path, "", ""))
    in_address = parse_qs(parts.query).get("token", [""])[0]
    given = in_address or os.environ.get("JUPYTER_TOKEN", "")
    if given:
        return Place(address, given)
    same = [one for one in running_servers() if _address(one.url) == _address(address)]
    return same[0] if same else Place(address)


def _address(url: str) -> tuple[str, int | None, str]:
    parts = urlsplit(url)
    host = "localhost" if parts.hostname in ("127.0.0.1", "::1", "localhost") else str(parts.hostname)
    return host, parts.port, parts.path.rstrip("/")


def path_of(conversation_id: str) -> str:
    return f"conversations/{quote(conversation_id, safe='')}"


class Server:
    """`async with Server(place) as server`. Its methods raise `Refused`, `Lost`."""

    def __init__(self, place: Place) -> None:
        self.place = place

    async def __aenter__(self) -> Self:
        headers = {"Authorization": f"token {self.place.token}"} if self.place.token else {}
        timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        self._http = aiohttp.ClientSession(headers=headers, timeout=timeout, trust_env=True)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    async def get(self, path: str, **query: str) -> Any:
        return await self._ask("GET", path, params=query)

    async def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return await self._ask("POST", path, json=dict(body or {}))

    async def _ask(self, method: str, path: str, **options: Any) -> Any:
        try:
            async with self._http.request(method, self._url(path), allow_redirects=False, **options) as answer:
                if answer.status >= 300:
                    raise await _refusal(answer)
                return await _json(answer)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise Lost(_why(error)) from None

    def _url(self, path: str) -> URL:
        # As it is written: JupyterHub's address of ana@example.org has %40, and is another one with @.
        return URL(f"{self.place.url.rstrip('/')}/{path}", encoded=True)

    async def events(self, conversation_id: str, after: int | None) -> AsyncGenerator[Frame]:
        """The frames of one connection: a `session`, then events. Raises `Lost` at its end, `Refused`."""
        headers = {"Accept": "text/event-stream"} | ({} if after is None else {"Last-Event-ID": str(after)})
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS)
        reader, url = EventReader(), self._url(f"{API}/{path_of(conversation_id)}/events")
        try:
            async with self._http.get(url, headers=headers, timeout=timeout, allow_redirects=False) as answer:
                if answer.status != 200:
                    raise await _refusal(answer)
                async for chunk in answer.content.iter_any():
                    for data in reader.feed(chunk):
                        yield json.loads(data)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise Lost(_why(error)) from None
        raise Lost("The connection ended.")


async def _json(answer: aiohttp.ClientResponse) -> Any:
    data = await answer.read()
    try:
        return json.loads(data) if data else None
    except ValueError:
        return None


async def _refusal(answer: aiohttp.ClientResponse) -> AgentKernelError:
    body, status = await _json(answer), answer.status
    message = str(body.get("message") or "") if isinstance(body, dict) else ""
    if status in (301, 302, 303, 307, 308, 401) or (status == 403 and not message):
        message = NO_TOKEN
    elif status == 403 and message == "Forbidden":
        message = FORBIDDEN
    message = message or f"The server answered {status}."
    return Lost(message) if status >= 500 else Refused(status, message)


def _why(error: Exception) -> str:
    """A failure in words; not the exception's own text where that could hold an address."""
    if isinstance(error, TimeoutError):
        return "The server did not answer in time."
    if isinstance(error, aiohttp.ClientSSLError):
        return "The server's certificate is not trusted here (SSL_CERT_FILE names the file of one's own authority)."
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"There is no connection to the server: {error.strerror or type(error).__name__}."
    return f"The connection failed: {type(error).__name__}."


async def follow(
    server: Server, conversation_id: str, after: int | None, patience: float
) -> AsyncGenerator[tuple[int, Frame] | Lost]:
    """The frames of a conversation after an event, none missing and none twice, over as many connections as it takes;
    without `after`, from its present end on. With each comes up to which event all are there. Each connection begins
    with a `session`; a `Lost` comes with each attempt that fails. Raises `Refused`, and `Lost` where the first attempt
    fails, or all do for so many seconds.
    """
    last, failures, deadline = after, 0, 0.0
    while True:
        try:
            async with aclosing(server.events(conversation_id, last)) as frames:
                async for frame in frames:
                    failures, deadline = 0, inf
                    if frame["type"] != "session":
                        last = max(int(frame["seq"]), last or 0)
                    elif last is None or frame["last_seq"] > last + REPLAYED_EVENTS:
                        last = int(frame["last_seq"])
                    yield last or 0, frame
        except Lost as lost:
            deadline = min(deadline, time.monotonic() + patience)
            if time.monotonic() > deadline:
                raise
            yield lost
        await asyncio.sleep(RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)])
        failures += 1
