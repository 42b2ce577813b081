"""The HTTP side of `agent-kernel chat`: which server, its routes, and the stream of events.

A token goes into one header of requests to that server. It is in no address, message or error.
"""

import asyncio
import json
import os
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import aiohttp
from pydantic import TypeAdapter, ValidationError
from yarl import URL

from agent_kernel.errors import AgentKernelError
from agent_kernel.models.sse import EventReader
from agent_kernel.runtime.clients.session import REPLAYED_EVENTS
from agent_kernel.tools.review.hidden import reveal

API = "agent-kernel/api"
ANSWER_SECONDS, CONNECT_SECONDS, RETRY_SECONDS = 60.0, 5.0, 2.0
SILENCE_SECONDS = 45.0
"""A stream that is silent for longer is lost: the server sends a comment each 15 seconds."""
NO_TOKEN = "The server does not take this token, wants one (JUPYTER_TOKEN), or lets you only look."
Frame = dict[str, Any]
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

    async def follow(self, path: str, after: int, tries: float) -> AsyncGenerator[tuple[int, Frame]]:
        """The frames of a conversation after an event, none missing and none twice, over as many connections as it
        takes; with each comes up to which event all are there. Each connection begins with a `session`. Raises
        `Refused`, and `Lost` where so many attempts fail in a row.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS)
        failed = 0
        while True:
            reader, headers = EventReader(), {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
            try:
                async with self._request("GET", f"{path}/events", headers=headers, timeout=timeout) as answer:
                    async for chunk in answer.content.iter_any():
                        for data in reader.feed(chunk):
                            frame, failed = json.loads(data), 0
                            if frame["type"] != "session":
                                after = max(frame["seq"], after)
                            elif frame["last_seq"] > after + REPLAYED_EVENTS:
                                after = frame["last_seq"]
                            yield after, frame
            except Lost:
                if failed >= tries:
                    raise
            failed += 1
            await asyncio.sleep(min(RETRY_SECONDS, 0.2 * failed))

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
            raise Lost(
                f"There is no connection to the server ({name}). Does it run? --server URL names another."
            ) from None


def _refusal(status: int, body: bytes) -> AgentKernelError:
    try:
        message = reveal(str(json.loads(body)["message"]))
    except (ValueError, TypeError, LookupError):
        message = f"The server answered {status}: there may be no Agent Kernel."
    if status >= 500:
        return Lost(message)
    is_without_token = status in (301, 302, 303, 307, 308, 401) or (status == 403 and message == "Forbidden")
    return Refused(NO_TOKEN if is_without_token else message)
