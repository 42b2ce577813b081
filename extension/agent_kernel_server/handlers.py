"""The HTTP routes. Each is thin: it checks who asks, reads the body, asks the runtime and dumps a view."""

from typing import Any, NoReturn, get_args

from jupyter_server.auth.decorator import authorized
from jupyter_server.services.contents import handlers as contents
from jupyter_server.services.contents.handlers import ContentsHandler
from pydantic import BaseModel, ConfigDict, Field
from tornado import web

from agent_kernel.protocol.views import MOST_DAYS, STATS_DAYS, RunView
from agent_kernel.protocol.vocabulary import CallState, Effort, RunStatus
from agent_kernel.runtime.clients.lists import ENDED_RUNS
from agent_kernel.runtime.clients.snapshot import tool_views
from agent_kernel.tools.builtin.declarations import BUILTIN_TOOLS
from agent_kernel_server.answers import (
    ApprovalHandler,
    BudgetHandler,
    CancelHandler,
    OutcomeHandler,
    PolicyHandler,
    RetryHandler,
    UndoHandler,
)
from agent_kernel_server.channel import ChannelHandler
from agent_kernel_server.page_contents import PageContents
from agent_kernel_server.requests import AgentKernelHandler, Refusal
from agent_kernel_server.service import Service

EXTENSION = "agent_kernel_server"
CALL_STATES: frozenset[str] = frozenset({*get_args(CallState), "unanswered"})
"""What the list of approvals can be asked for. `unanswered`: see `Runtime.approvals`."""
RUN_STATUSES: frozenset[str] = frozenset(get_args(RunStatus))
RUN_STATES: frozenset[str] = RUN_STATUSES | {"paused", "open"}
"""What the list of runs can be asked for: a run that is paused is not `running` then; `open` are all that have not
ended."""


class NewConversation(BaseModel):
    """The body of `POST conversations`; an empty body is an empty object."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    kernel_id: str | None = None
    model: str | None = None


class NewRun(BaseModel):
    """The body of `POST conversations/{id}/runs`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    content: str = Field(min_length=1)
    watched: bool = Field(default=False, strict=True)
    """Whether whoever asks also answers: see `RunSpec`."""
    effort: Effort | None = None


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


class ModelsHandler(AgentKernelHandler):
    @web.authenticated
    @authorized
    async def get(self) -> None:
        self.send(await self.service.list_models())


class ConversationsHandler(AgentKernelHandler):
    @web.authenticated
    @authorized
    async def get(self) -> None:
        after, limit = self.get_query_argument("after", None), self.wanted_number("limit", -1)
        self.send(await (await self.runtime()).list_conversations(after=after, limit=limit))

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
        conversation = await (await self.runtime()).conversation(conversation_id)
        self.send((await conversation.snapshot()).text)

    @web.authenticated
    @authorized
    async def delete(self, conversation_id: str) -> None:
        await (await self.runtime()).delete_conversation(conversation_id, decided_by=self.person)
        self.set_status(204)
        self.finish()


class RunsHandler(AgentKernelHandler):
    @web.authenticated
    @authorized("execute")
    async def post(self, conversation_id: str) -> None:
        body = self.read_body(NewRun)
        run_id = await self.service.start_run(
            conversation_id, body.content, watched=body.watched, effort=body.effort, asked_by=self.person
        )
        self.send({"run_id": run_id, "conversation_id": conversation_id}, 201)


class OpenRunsHandler(AgentKernelHandler):
    @web.authenticated
    @authorized
    async def get(self) -> None:
        state, status = self.wanted("state", RUN_STATES), self.wanted("status", RUN_STATUSES)
        runs = await self.service.list_runs(self.wanted_number("limit", ENDED_RUNS))
        if state is not None:
            runs = [run for run in runs if state in _states(run)]
        if status is not None:
            runs = [run for run in runs if run.status == status]
        self.send(self.of_notebook(runs))


class ApprovalsHandler(AgentKernelHandler):
    @web.authenticated
    @authorized
    async def get(self) -> None:
        state, status = self.wanted("state", CALL_STATES), self.wanted("status", CALL_STATES)
        calls = await self.service.list_calls(state or status)
        if state is not None and status is not None:
            alike = {call.approval_id for call in await self.service.list_calls(status)}
            calls = [call for call in calls if call.approval_id in alike]
        self.send(self.of_notebook(calls))


class ChangesHandler(AgentKernelHandler):
    """The changes of files by a kernel's calls that can be undone, or were."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        self.send(await self.service.list_changes(self.get_query_argument("kernel_id")))


class RulesHandler(AgentKernelHandler):
    """The site's rules and those that people saved. None is made here: a rule comes from an answer to a card."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        self.send(await (await self.runtime()).list_rules())


class RuleHandler(AgentKernelHandler):
    @web.authenticated
    @authorized("execute")
    async def delete(self, rule_id: str) -> None:
        await (await self.runtime()).remove_rule(rule_id, decided_by=self.person)
        self.set_status(204)
        self.finish()


def _states(run: RunView) -> set[str]:
    """What the list of runs can be asked for to have this one."""
    if run.status not in ("queued", "running"):
        return {run.status}
    return {"open", "paused" if run.paused else run.status}


class UsageHandler(AgentKernelHandler):
    @web.authenticated
    @authorized
    async def get(self) -> None:
        days = self.wanted_number("days", STATS_DAYS)
        if not 1 <= days <= MOST_DAYS:
            raise Refusal(400, f"days: {days} is not a number from 1 to {MOST_DAYS}", field="days")
        self.send(await (await self.runtime()).usage(days))


class PageContentsHandler(ContentsHandler):
    """Jupyter's own, in its place: a page that loads a notebook gets the widgets of the runs that go on there."""

    @property
    def contents_manager(self) -> Any:
        service: Service | None = self.settings[EXTENSION].service
        manager = self.settings["contents_manager"]
        return manager if service is None else PageContents(manager, service.records)


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
    (rf"{_API}/usage", UsageHandler),
    (rf"{_API}/models", ModelsHandler),
    (rf"{_API}/conversations", ConversationsHandler),
    (rf"{_API}/conversations/{_ID}", ConversationHandler),
    (rf"{_API}/conversations/{_ID}/runs", RunsHandler),
    (rf"{_API}/conversations/{_ID}/policy", PolicyHandler),
    (rf"{_API}/conversations/{_ID}/runs/{_ID}/budget", BudgetHandler),
    (rf"{_API}/conversations/{_ID}/runs/{_ID}/retry", RetryHandler),
    (rf"{_API}/conversations/{_ID}/runs/{_ID}/cancel", CancelHandler),
    (rf"{_API}/conversations/{_ID}/channel", ChannelHandler),
    (rf"{_API}/runs", OpenRunsHandler),
    (rf"{_API}/approvals", ApprovalsHandler),
    (rf"{_API}/approvals/{_ID}", ApprovalHandler),
    (rf"{_API}/approvals/{_ID}/outcome", OutcomeHandler),
    (rf"{_API}/approvals/{_ID}/undo", UndoHandler),
    (rf"{_API}/changes", ChangesHandler),
    (rf"{_API}/rules", RulesHandler),
    (rf"{_API}/rules/{_ID}", RuleHandler),
    (rf"{_API}/(.*)", UnknownRouteHandler),
    # All of Jupyter's routes to contents, in its order: the pattern of the last one covers those before it.
    *((path, PageContentsHandler if one is ContentsHandler else one) for path, one in contents.default_handlers),
]
