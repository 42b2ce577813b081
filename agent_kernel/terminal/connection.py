"""The HTTP side of `agent-kernel chat`: which server, its routes, and the stream of events.

A token goes into one header of requests to that server. It is in no address, message or error.
"""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, quote, urlsplit, urlunsplit

import aiohttp
from pydantic import TypeAdapter, ValidationError
from yarl import URL

from agent_kernel.errors import AgentKernelError
from agent_kernel.models.sse import EventReader
from agent_kernel.protocol.events import ServerEvent, server_event_adapter
from agent_kernel.protocol.lists import ListedRun, WaitView

ANSWER_SECONDS = 60.0
LOOK_SECONDS = 5.0
"""How long a server that may run the extension has, to say so."""
SILENCE_SECONDS = 45.0
"""A stream that is silent for longer is lost: the server sends a comment each 15 seconds."""
RETRY_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0)
FAR_BEHIND = 50_000
"""A client that is further behind gets a `session` in place of what it has missed (docs/protocol.md)."""
_RUNS: TypeAdapter[list[ListedRun]] = TypeAdapter(list[ListedRun])


class ChatError(AgentKernelError):
    """Ends the command, with a message that says what to do."""


class Refused(AgentKernelError):
    """The server's answer to what was asked: nothing was done."""

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        super().__init__(str(body.get("message") or f"The server answered {status}."))
        self.status = status
        self.body = body


class Lost(AgentKernelError):
    """The server can't be reached."""


class Gone(AgentKernelError):
    """The conversation is not there, or no more."""


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


def place_of(url: str, token: str | None, environment: Mapping[str, str] = os.environ) -> Place:
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
    given = token or in_address or environment.get("JUPYTER_TOKEN", "")
    if given:
        return Place(address, given)
    same = [one for one in running_servers() if _address(one.url) == _address(address)]
    return same[0] if same else Place(address)


def _address(url: str) -> tuple[str, int | None, str]:
    parts = urlsplit(url)
    host = "localhost" if parts.hostname in ("127.0.0.1", "::1", "localhost") else str(parts.hostname)
    return host, parts.port, parts.path.rstrip("/")


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
                body = await _json(answer)
                if not answer.ok or answer.status >= 300:
                    raise self._refusal(answer.status, body)
                return body
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise Lost(_why(error)) from None

    def _url(self, path: str) -> URL:
        # As it is written: JupyterHub's address of ana@example.org has %40, and is another one with @.
        return URL(f"{self.place.url.rstrip('/')}/{path}", encoded=True)

    def _refusal(self, status: int, body: Any) -> Refused:
        if not isinstance(body, dict):
            body = {}
        if status in (301, 302, 303, 307, 308, 401) or (status == 403 and not body.get("message")):
            body = body | {"message": "The server does not take this token, or wants one: set JUPYTER_TOKEN."}
        elif status == 403 and body.get("message") == "Forbidden":
            body = body | {
                "message": "The server lets nobody in without its token (JUPYTER_TOKEN), or lets you only look."
            }
        return Refused(status, body)

    async def has_agents(self) -> bool:
        """Whether this server answers and has the extension."""
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await self.get("agent-kernel/api/status")
        except (Refused, Lost, TimeoutError):
            return False
        return True

    async def runs(self, **query: str) -> list[ListedRun]:
        """Open runs, and the newest ended ones, the oldest first."""
        try:
            return _RUNS.validate_python(await self.get("agent-kernel/api/runs", **query))
        except ValidationError as error:
            raise ChatError("The server has another version of Agent Kernel, whose runs can't be read.") from error

    async def waits(self, run_id: str) -> list[WaitView]:
        """For what an open run waits."""
        runs = await self.runs(state="open")
        return next((run.waits_for for run in runs if run.run_id == run_id), [])

    async def kernel_of(self, notebook: str) -> str | None:
        """The kernel of an open notebook."""
        sessions = await self.get("api/sessions")
        return next((one["kernel"]["id"] for one in sessions if one.get("path") == notebook), None)

    async def events(self, conversation_id: str, after: int | None) -> AsyncGenerator[dict[str, Any]]:
        """The frames of one connection: a `session`, then events. Raises `Lost` at its end, `Gone`, `Refused`."""
        path = f"agent-kernel/api/conversations/{quote(conversation_id, safe='')}/events"
        headers = {"Accept": "text/event-stream"} | ({} if after is None else {"Last-Event-ID": str(after)})
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=LOOK_SECONDS, sock_read=SILENCE_SECONDS)
        reader = EventReader()
        try:
            async with self._http.get(
                self._url(path), headers=headers, timeout=timeout, allow_redirects=False
            ) as answer:
                if answer.status == 404:
                    raise Gone("There is no such conversation on this server.")
                if answer.status != 200:
                    raise self._refusal(answer.status, await _json(answer))
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


def _why(error: Exception) -> str:
    """A failure in words; not the exception's own text where that could hold an address."""
    if isinstance(error, TimeoutError):
        return "The server did not answer in time."
    if isinstance(error, aiohttp.ClientSSLError):
        return "The server's certificate is not trusted here (SSL_CERT_FILE names the file of one's own authority)."
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"There is no connection to the server: {error.strerror or type(error).__name__}."
    return f"The connection failed: {type(error).__name__}."


Frame = dict[str, Any]


def read_event(frame: Frame) -> ServerEvent | None:
    """The event of a frame; `None` for a type that this version does not know."""
    try:
        return server_event_adapter.validate_python(frame)
    except ValidationError:
        return None


@dataclass(frozen=True, slots=True)
class Connected:
    """The connection is back."""


async def follow(
    server: Server, conversation_id: str, *, catch_up: bool = True
) -> AsyncGenerator[Frame | Lost | Connected]:
    """The frames of a conversation, none missing and none twice, over as many connections as it takes.

    Of `session` frames only those come that have to be read: the first, and one that stands for events that are too
    many to be sent. With `catch_up`, the pieces of an answer that was half written by then follow the first. A `Lost`
    comes when a connection is lost, and with each attempt that fails. Raises `Gone`, `Refused`.
    """
    place = _Place(catch_up=catch_up)
    failures = 0
    while True:
        try:
            async with aclosing(server.events(conversation_id, place.last)) as frames:
                async for frame in frames:
                    for item in place.news(frame):
                        failures = 0
                        yield item
                    if place.goes_back:
                        break
        except Lost as lost:
            yield lost
        except Refused as refused:
            if refused.status < 500:
                raise
            yield Lost(str(refused))
        else:
            continue
        await asyncio.sleep(RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)])
        failures += 1


class _Place:
    """Where a client is in a conversation."""

    def __init__(self, *, catch_up: bool) -> None:
        self.last: int | None = None
        """The last event that it has."""
        self.goes_back = False
        """Whether it has to connect again, from an earlier place, for what the snapshot lacks."""
        self._catch_up = catch_up
        self._past = 0
        self._whole: set[str] = set()
        """The end of the snapshot, and its messages: of the events up to it, pieces of others count."""

    def news(self, frame: Frame) -> list[Frame | Connected]:
        """What a frame brings: nothing, if its event is known."""
        if frame.get("type") == "session":
            return self._of_session(frame, int(frame["last_seq"]))
        seq = int(frame["seq"])
        if self.last is not None and seq <= self.last:
            return []
        self.last = seq
        is_piece = frame.get("type") == "token" and frame.get("message_id") not in self._whole
        return [frame] if seq > self._past or is_piece else []

    def _of_session(self, session: Frame, end: int) -> list[Frame | Connected]:
        if self.last is None:
            start = int(session.get("resume_from", end)) if self._catch_up else end
            self.last, self._past, self.goes_back = start, end, start < end
            self._whole = {message["message_id"] for message in session["snapshot"]["messages"]}
            return [session]
        was_back, self.goes_back = self.goes_back, False
        known: list[Frame | Connected] = [] if was_back else [Connected()]
        if end <= self.last + FAR_BEHIND:
            return known
        self.last = end
        return [*known, session]
