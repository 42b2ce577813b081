"""The HTTP side of `agent-kernel chat`: which server, its routes, and the stream of events.

A token goes into one header of requests to that server. It is in no address, message or error.
"""

import asyncio
import json
import os
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

import aiohttp
from pydantic import TypeAdapter, ValidationError
from yarl import URL

from agent_kernel.errors import AgentKernelError
from agent_kernel.models.sse import EventReader
from agent_kernel.protocol.views import ConversationView
from agent_kernel.tools.review.hidden import reveal

API, DEFAULT_SERVER = "agent-kernel/api", "http://localhost:8888/"
ANSWER_SECONDS, CONNECT_SECONDS, RETRY_SECONDS = 60.0, 5.0, 1.0
TRIES = 120
"""How often a server that is lost is tried again."""
SILENCE_SECONDS = 45.0
"""A stream that is silent for longer is lost: the server sends a comment each 15 seconds."""
PIECES = ("token", "reasoning", "usage", "tool_output")
"""The events that change nothing that is printed or asked."""
NO_SERVER = "Start it (jupyter lab), or name one that runs: --server URL, with its token in JUPYTER_TOKEN."
NO_TOKEN = "The server does not take this token, wants one (JUPYTER_TOKEN), or lets you only look."
T = TypeVar("T")


class Refused(AgentKernelError):
    """What was asked can't be done, with a message that says what to do: by the server, or before it is asked."""


class Lost(AgentKernelError):
    """The server can't be reached."""


@dataclass(frozen=True, slots=True)
class Place:
    """A Jupyter server."""

    url: str
    """The base URL, without a token."""
    token: str = field(default="", repr=False)


def running_servers() -> list[Place]:
    """The user's servers on this machine, as `jupyter server list` finds them; the newest last."""
    from jupyter_server.serverapp import list_running_servers

    found = []
    for info in list_running_servers(log=None):
        url = str(info.get("url", ""))
        if url.startswith(("http://", "https://")):  # others listen on a socket file
            found.append(Place(url, str(info.get("token") or "")))
    return found


def place_of(address: str) -> Place:
    """A server by its address, which may be one that Jupyter has printed, with its token. Raises `Refused`."""
    try:
        url = URL(address if "//" in address else f"http://{address}", encoded=True)
    except ValueError:
        url = URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise Refused("--server is the address of a Jupyter server, such as http://localhost:8888/")
    path = re.sub(r"/(lab|tree)(/.*)?$", "", url.raw_path).rstrip("/") + "/"
    place = Place(f"{url.origin()}{path}", url.query.get("token") or os.environ.get("JUPYTER_TOKEN", ""))
    return place if place.token else next((one for one in running_servers() if one.url == place.url), place)


def server_at(address: str | None, token: str | None = None) -> Place:
    """The server at an address; without one, the newest on this machine. Raises `Refused`."""
    running = running_servers() if address is None else []
    place = running[-1] if running else place_of(address or DEFAULT_SERVER)
    return replace(place, token=token or place.token)


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

    async def get(self, path: str, kind: type[T], **query: str) -> T:
        async with self._request("GET", path, params=query) as answer:
            body = await answer.read()
        try:
            return TypeAdapter(kind).validate_json(body)
        except ValidationError:
            raise Refused("The server has another version of Agent Kernel, which can't be read.") from None

    async def post(self, path: str, body: Mapping[str, Any]) -> None:
        async with self._request("POST", path, json=body):
            pass

    async def views(self, path: str) -> AsyncGenerator[ConversationView]:
        """A conversation as it is, and again after each change, over as many connections as it takes. Raises `Refused`,
        and `Lost` where `TRIES` attempts fail in a row."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS)
        view, failed = None, 0
        while True:
            reader = EventReader()
            try:
                async with self._request("GET", f"{path}/events", timeout=timeout) as answer:
                    async for chunk in answer.content.iter_any():
                        for frame in map(json.loads, reader.feed(chunk)):
                            if view is None or (frame["seq"] > view.last_seq and frame["type"] not in PIECES):
                                view, failed = await self.get(path, ConversationView), 0
                                yield view
            except Lost:
                if failed >= TRIES:
                    raise
            failed += 1
            await asyncio.sleep(RETRY_SECONDS)

    @asynccontextmanager
    async def _request(self, method: str, path: str, **options: Any) -> AsyncGenerator[aiohttp.ClientResponse]:
        # The address as it is written: JupyterHub's of ana@example.org has %40, and is another one with @.
        url = URL(f"{self.place.url.rstrip('/')}/{API}/{path}", encoded=True)
        try:
            async with self._http.request(method, url, allow_redirects=False, **options) as answer:
                if answer.status >= 300:
                    raise _refusal(answer.status, await answer.read())
                yield answer
        except TimeoutError:
            raise Lost("The server did not answer in time.") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:  # whose text may hold an address
            name = type(error).__name__
            raise Lost(f"There is no connection to {self.place.url} ({name}). {NO_SERVER}") from None


def _refusal(status: int, body: bytes) -> AgentKernelError:
    try:
        message = reveal(str(json.loads(body)["message"]))
    except (ValueError, TypeError, LookupError):
        message = f"The server answered {status}: there may be no Agent Kernel."
    if status >= 500:
        return Lost(message)
    is_without_token = status in (301, 302, 303, 307, 308, 401) or (status == 403 and message == "Forbidden")
    return Refused(NO_TOKEN if is_without_token else message)
