"""The HTTP routes. Each is thin: it checks who asks, reads the body, asks the brain and dumps a view."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeVar, get_args

import orjson
from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.extension.handler import ExtensionHandlerMixin
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from tornado import web

from agent_kernel.errors import (
    AgentKernelError,
    AlreadyDecided,
    ConfigurationError,
    DigestMismatch,
    IllegalTransition,
    InvalidArguments,
    KernelGone,
    LogUnavailable,
    NotFound,
)
from agent_kernel.loop.brain import Brain
from agent_kernel.loop.faces.greeting import tool_views
from agent_kernel.protocol.commands import MAX_FRAME_BYTES, Decision
from agent_kernel.protocol.vocabulary import CallState
from agent_kernel.tools.builtin import BUILTIN_TOOLS
from agent_kernel_server.channel import ChannelHandler
from agent_kernel_server.identity import AUTH_RESOURCE, person_of
from agent_kernel_server.service import Service

BodyT = TypeVar("BodyT", bound=BaseModel)

LIMIT = re.compile("[0-9]{1,9}")
CALL_STATES: frozenset[str] = frozenset(get_args(CallState))


class NewConversation(BaseModel):
    """The body of `POST conversations`; an empty body is an empty object."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    kernel_id: str | None = None
    model: str | None = None


class NewRun(BaseModel):
    """The body of `POST conversations/{id}/runs`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    content: str = Field(min_length=1)


class Refusal(Exception):
    """An answer other than success, with a JSON body that always has `message`."""

    def __init__(self, status: int, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.status = status
        self.body = {**fields, "message": message}


def refusal_for(error: AgentKernelError) -> Refusal:
    """What HTTP says of an error of the brain."""
    message = str(error)
    if isinstance(error, NotFound):
        return Refusal(404, message)
    if isinstance(error, AlreadyDecided):
        return Refusal(409, message, **error.first)
    if isinstance(error, DigestMismatch | IllegalTransition | KernelGone):
        return Refusal(409, message)
    if isinstance(error, InvalidArguments):
        return Refusal(400, message, field="edited_input")
    if isinstance(error, LogUnavailable):
        return Refusal(503, message)
    if isinstance(error, ConfigurationError):
        return Refusal(400, message, field="model")
    return Refusal(500, message)


def invalid_body(error: ValidationError) -> Refusal:
    """Names the first field that does not validate, and lists all of them."""
    faults = [
        {"field": ".".join(str(part) for part in fault["loc"]) or "body", "message": fault["msg"]}
        for fault in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    first = faults[0]
    return Refusal(400, f"{first['field']}: {first['message']}", field=first["field"], errors=faults)


class AgentKernelHandler(ExtensionHandlerMixin, APIHandler):
    auth_resource = AUTH_RESOURCE

    @property
    def service(self) -> Service:
        service: Service = self.settings[self.name].service
        return service

    async def brain(self) -> Brain:
        return await self.service.brain()

    def read_body(self, model: type[BodyT]) -> BodyT:
        """The validated body. Raises `Refusal` 400 with the field, or 413."""
        body = self.request.body or b"{}"
        if len(body) > MAX_FRAME_BYTES:
            raise Refusal(413, f"The body is larger than {MAX_FRAME_BYTES} bytes.")
        try:
            return model.model_validate_json(body)
        except ValidationError as error:
            raise invalid_body(error) from error

    def send(self, body: bytes | BaseModel | Mapping[str, Any] | Sequence[BaseModel], status: int = 200) -> None:
        """An answer; `bytes` are JSON already."""
        self.set_status(status)
        self.finish(body if isinstance(body, bytes) else orjson.dumps(body, default=_dump))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = kwargs.get("exc_info", (None, None, None))[1]
        if isinstance(error, AgentKernelError):
            error = refusal_for(error)
        if not isinstance(error, Refusal):
            super().write_error(status_code, **kwargs)
            return
        self.send(error.body, error.status)

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """A refusal is an answer, not a fault of the server."""
        if not isinstance(value, Refusal | AgentKernelError):
            super().log_exception(typ, value, tb)


def _dump(value: object) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} is not JSON")


class StatusHandler(AgentKernelHandler):
    @web.authenticated
    @authorized
    async def get(self) -> None:
        self.send(await self.service.status())


class ToolsHandler(AgentKernelHandler):
    @web.authenticated
    @authorized
    async def get(self) -> None:
        self.send(tool_views(BUILTIN_TOOLS))


class ConversationsHandler(AgentKernelHandler):
    @web.authenticated
    @authorized
    async def get(self) -> None:
        after, limit = self.get_query_argument("after", None), self.get_query_argument("limit", None)
        if limit is not None and LIMIT.fullmatch(limit) is None:
            raise Refusal(400, f"limit: {limit[:20]!r} is not a number of conversations", field="limit")
        most = -1 if limit is None else int(limit)
        self.send(await (await self.brain()).list_conversations(after=after, limit=most))

    @web.authenticated
    @authorized
    async def post(self) -> None:
        body = self.read_body(NewConversation)
        if body.kernel_id is not None and not self.service.has_kernel(body.kernel_id):
            raise Refusal(404, f"There is no kernel {body.kernel_id!r}.", field="kernel_id")
        conversation = await self.service.create_conversation(kernel_id=body.kernel_id, model=body.model)
        self.send((await conversation.snapshot()).text, 201)


class ConversationHandler(AgentKernelHandler):
    @web.authenticated
    @authorized
    async def get(self, conversation_id: str) -> None:
        conversation = await (await self.brain()).conversation(conversation_id)
        self.send((await conversation.snapshot()).text)

    @web.authenticated
    @authorized
    async def delete(self, conversation_id: str) -> None:
        await (await self.brain()).delete_conversation(conversation_id, decided_by=person_of(self.current_user))
        self.set_status(204)
        self.finish()


class RunsHandler(AgentKernelHandler):
    @web.authenticated
    @authorized("execute")
    async def post(self, conversation_id: str) -> None:
        body = self.read_body(NewRun)
        run_id = await self.service.start_run(conversation_id, body.content)
        self.send({"run_id": run_id, "conversation_id": conversation_id}, 201)


class ApprovalsHandler(AgentKernelHandler):
    @web.authenticated
    @authorized
    async def get(self) -> None:
        state = self.get_query_argument("state", None)
        if state is not None and state not in CALL_STATES:
            raise Refusal(400, f"state: {state!r} is none of {', '.join(sorted(CALL_STATES))}", field="state")
        self.send(await (await self.brain()).approvals(state))


class ApprovalHandler(AgentKernelHandler):
    @web.authenticated
    @authorized("execute")
    async def post(self, approval_id: str) -> None:
        decision = self.read_body(Decision)
        brain = await self.brain()
        self.send(await brain.decide(approval_id, decision, decided_by=person_of(self.current_user)))


class UnknownRouteHandler(AgentKernelHandler):
    """Any other path below `agent-kernel/api` gets JSON, not the server's page."""

    @web.authenticated
    @authorized
    async def get(self, path: str) -> None:
        self._refuse(path)

    @web.authenticated
    @authorized
    async def post(self, path: str) -> None:
        self._refuse(path)

    @web.authenticated
    @authorized
    async def delete(self, path: str) -> None:
        self._refuse(path)

    def _refuse(self, path: str) -> NoReturn:
        raise Refusal(404, f"There is no route {path!r}.")


_ID = r"([^/]+)"
_API = "agent-kernel/api"

HANDLERS: list[tuple[str, type[web.RequestHandler]]] = [
    (rf"{_API}/status", StatusHandler),
    (rf"{_API}/tools", ToolsHandler),
    (rf"{_API}/conversations", ConversationsHandler),
    (rf"{_API}/conversations/{_ID}", ConversationHandler),
    (rf"{_API}/conversations/{_ID}/runs", RunsHandler),
    (rf"{_API}/conversations/{_ID}/channel", ChannelHandler),
    (rf"{_API}/approvals", ApprovalsHandler),
    (rf"{_API}/approvals/{_ID}", ApprovalHandler),
    (rf"{_API}/(.*)", UnknownRouteHandler),
]
