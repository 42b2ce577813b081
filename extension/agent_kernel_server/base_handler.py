"""The base class of the API's handlers: authorization, validated bodies, JSON answers, and errors as statuses."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, NoReturn, TypeVar

import orjson
from jupyter_server.base.handlers import APIHandler
from jupyter_server.extension.handler import ExtensionHandlerMixin
from pydantic import BaseModel, ValidationError
from tornado import web

from agent_kernel.errors import AgentKernelError, LogUnavailable
from agent_kernel.protocol.commands import MAX_FRAME_BYTES
from agent_kernel.protocol.json_once import loads_once
from agent_kernel.protocol.lists import ClientView, ListedCall, ListedRun
from agent_kernel.runtime.clients.dispatch import reply_for
from agent_kernel.runtime.runtime import Runtime
from agent_kernel_server.identity import AUTH_RESOURCE, Action, may, person_of
from agent_kernel_server.mcp_server.outside_calls import STOPS
from agent_kernel_server.service import Service

BodyT = TypeVar("BodyT", bound=BaseModel)
ListedT = TypeVar("ListedT", ListedCall, ListedRun, ClientView)
NUMBER = re.compile("[0-9]{1,9}")
SHORT_BYTES = 64 * 1024
"""A refused body of this length is read and thrown away, so that the connection goes on."""


class Refusal(Exception):
    """An answer other than success, with a JSON body that always has `message`."""

    def __init__(self, status: int, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.status = status
        self.body = {**fields, "message": message}


def invalid_body(error: ValidationError) -> Refusal:
    """The answer to a body that does not validate: names the first invalid field, and lists all."""
    faults = [
        {"field": ".".join(str(part) for part in fault["loc"]) or "body", "message": fault["msg"]}
        for fault in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    first = faults[0]
    return Refusal(400, f"{first['field']}: {first['message']}", field=first["field"], errors=faults)


@web.stream_request_body
class AgentKernelHandler(ExtensionHandlerMixin, APIHandler):
    """Checks what a user may do, and reads bodies. The user, the right and the length are checked when the headers have
    come, so that a refused body is neither waited for nor kept. Tornado then closes the connection, and the answer says
    so: else a client that keeps its connections sends its next request into a closed one."""

    auth_resource = AUTH_RESOURCE
    actions: ClassVar[Mapping[str, Action]] = {"GET": "read", "POST": "execute", "DELETE": "execute"}
    """By HTTP method, what the site's authorizer must allow."""
    most_bytes = MAX_FRAME_BYTES
    """The longest body."""
    _reads_body = False
    """Whether the body is read to its end before the answer."""

    async def prepare(self) -> None:  # type: ignore[override]  # it waits
        """Raises `HTTPError` 403 without a user or the right, 413 for a body that is too long, and Jupyter's own
        refusals; where the body is short, once it has come."""
        self._received = bytearray()
        try:
            await self._check_headers()
        except web.HTTPError as error:
            length = self._length()
            if length is None or length > SHORT_BYTES:
                raise
            self._refuse_later(error)
        self._reads_body = True

    async def _check_headers(self) -> None:
        await super().prepare()
        if self._finished or self.request.method == "OPTIONS":  # a browser asks without a token whether it may send one
            return
        action = self.actions.get(str(self.request.method))
        if self.current_user is None or (action is not None and not await may(self, action)):
            raise web.HTTPError(403)
        if (self._length() or 0) > self.most_bytes:
            raise self._too_long()

    def _length(self) -> int | None:
        """The body's, as the headers say; `None` where they do not."""
        text = self.request.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.request.headers or NUMBER.fullmatch(text) is None:
            return None
        return int(text)

    def _refuse_later(self, refusal: web.HTTPError) -> None:
        """Tornado calls the request's method once the body has been read. The refusal takes its place."""

        def refuse(*_arguments: Any, **_named: Any) -> NoReturn:
            raise refusal

        setattr(self, str(self.request.method).lower(), refuse)

    def _too_long(self) -> web.HTTPError:
        return web.HTTPError(413, f"The body is larger than {self.most_bytes} bytes.")

    def data_received(self, chunk: bytes) -> None:
        """One piece of the body. The first one beyond the limit is kept, as a sign of it; later ones are dropped."""
        if len(self._received) <= self.most_bytes:
            self._received += chunk

    @property
    def body(self) -> bytes:
        """Raises `HTTPError` 413 for one that did not say that it is too long."""
        if len(self._received) > self.most_bytes:
            raise self._too_long()
        return bytes(self._received)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Jupyter warns of methods that are not marked as authenticated. `prepare` has checked already."""
        super().__init_subclass__(**kwargs)
        for name in {"get", "post", "delete"} & vars(cls).keys():
            setattr(cls, name, web.authenticated(getattr(cls, name)))

    @property
    def service(self) -> Service:
        """Raises `LogUnavailable` once the server stops."""
        service: Service | None = self.settings[self.name].service
        if service is None:
            raise LogUnavailable(STOPS)
        return service

    @property
    def person(self) -> str | None:
        """The user's name for the log."""
        return person_of(self.current_user)

    async def runtime(self) -> Runtime:
        return await self.service.runtime()

    def read_body(self, model: type[BodyT]) -> BodyT:
        """The validated body. Raises `Refusal` 400, which names the field, and `HTTPError` 413."""
        body = self.body or b"{}"
        try:
            return model.model_validate(loads_once(body))
        except ValidationError as error:
            raise invalid_body(error) from error
        except ValueError as error:
            raise Refusal(400, f"body: it is no JSON that can be read: {error}", field="body") from error

    def query_word(self, name: str, known: Collection[str]) -> str | None:
        """The query argument `name`, one of `known`; `None` without one. Raises `Refusal` 400."""
        word = self.get_query_argument(name, None)
        if word is not None and word not in known:
            raise Refusal(400, f"{name}: {word[:40]!r} is none of {', '.join(sorted(known))}", field=name)
        return word

    def query_number(self, name: str, default: int) -> int:
        """The query argument `name` as a number. Raises `Refusal` 400."""
        text = self.get_query_argument(name, None)
        if text is None:
            return default
        if NUMBER.fullmatch(text) is None:
            raise Refusal(400, f"{name}: {text[:20]!r} is not a number", field=name)
        return int(text)

    def of_notebook(self, listed: Sequence[ListedT]) -> Sequence[ListedT]:
        """The items of the notebook in the query argument `notebook`; without one, all."""
        path = self.get_query_argument("notebook", None, strip=False)
        return listed if path is None else [one for one in listed if one.notebook == path.strip("/")]

    def answer(self, body: bytes | BaseModel | Mapping[str, Any] | Sequence[BaseModel], status: int = 200) -> None:
        """Send an answer. `bytes` must be JSON already."""
        self.set_status(status)
        self.finish(body if isinstance(body, bytes) else orjson.dumps(body, default=_dump))

    def answer_nothing(self) -> None:
        self.set_status(204)
        self.finish()

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        self.set_cors_headers()  # tornado has dropped them: without, a page of another origin can't read why
        if not self._reads_body:
            self.set_header("Connection", "close")
        error = kwargs.get("exc_info", (None, None, None))[1]
        if isinstance(error, AgentKernelError):
            reply = reply_for(error)
            error = Refusal(reply.status, reply.message, **reply.details)
        if not isinstance(error, Refusal):
            super().write_error(status_code, **kwargs)
            return
        self.answer(error.body, error.status)

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """Refusals are not logged: they are answers, not faults of the server."""
        if not isinstance(value, Refusal | AgentKernelError):
            super().log_exception(typ, value, tb)


def _dump(value: object) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} is not JSON")
