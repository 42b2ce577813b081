"""The HTTP routes. Each handler checks authorization, reads the body, calls the runtime and sends a view.

Clients without a channel, such as scripts, can do everything by these routes that a card can.
"""

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, get_args

from jupyter_server.base.handlers import FileFindHandler
from pydantic import Field

from agent_kernel.errors import UnknownRun
from agent_kernel.protocol.commands import (
    Body,
    BudgetAnswer,
    BudgetCommand,
    CancelCommand,
    Decision,
    PolicyChoice,
    RunRetryCommand,
    ToolCancelCommand,
    ToolResultCommand,
    TryNowCommand,
)
from agent_kernel.protocol.ids import new_run_id
from agent_kernel.protocol.lists import MOST_DAYS, STATS_DAYS
from agent_kernel.protocol.mcp import MCP_PATH
from agent_kernel.protocol.views import RunView
from agent_kernel.protocol.vocabulary import CallState, Effort, RunStatus, UnknownAnswer
from agent_kernel.runtime.clients.dispatch import handle_command
from agent_kernel.runtime.clients.snapshot import ENDED_RUNS, tool_views
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.tools.builtin.declarations import BUILTIN_TOOLS
from agent_kernel_server.ai_sdk_handlers import ChatHandler, ChatMessagesHandler, ResumeHandler
from agent_kernel_server.base_handler import AgentKernelHandler, Refusal
from agent_kernel_server.identity import Action
from agent_kernel_server.mcp_server.route import McpHandler
from agent_kernel_server.sockets import ChannelHandler, PagesHandler
from agent_kernel_server.streams import EventsHandler

CALL_STATES: frozenset[str] = frozenset({*get_args(CallState), "unanswered"})
"""The states that the list of approvals accepts. `unanswered`: see `Runtime.approvals`."""
RUN_STATES: frozenset[str] = frozenset({*get_args(RunStatus), "paused", "open"})
"""The states that the list of runs accepts. A paused run is `paused` and not `running`; `open` are all that have not
ended."""


WRITING: Mapping[str, Action] = {"GET": "read", "POST": "write", "DELETE": "write"}


RunCommand = BudgetCommand | RunRetryCommand | TryNowCommand | CancelCommand
RUN_COMMANDS: dict[str, type[RunRetryCommand | TryNowCommand | CancelCommand]] = {
    "retry": RunRetryCommand,
    "try-now": TryNowCommand,
    "cancel": CancelCommand,
}
"""Those without a body, by the last part of their address."""


class NewConversation(Body):
    """The body of `POST conversations`; an empty body is an empty object."""

    kernel_id: str | None = None
    model: str | None = None


class NewRun(Body):
    """The body of `POST conversations/{id}/runs`."""

    content: str = Field(min_length=1)
    watched: bool = Field(default=False, strict=True)
    """Whether the caller also answers questions: see `RunSpec`."""
    effort: Effort | None = None


class OutcomeAnswer(Body):
    """The body of `POST approvals/{approval_id}/outcome`."""

    answer: UnknownAnswer


class ToolAnswer(Body):
    """The body of `POST approvals/{approval_id}/result`."""

    output: str


class StatusHandler(AgentKernelHandler):
    async def get(self) -> None:
        self.answer(await self.service.status())


class ToolsHandler(AgentKernelHandler):
    async def get(self) -> None:
        self.answer([*tool_views(BUILTIN_TOOLS), *(await self.service.mcp_servers.view()).tools])


class ServersHandler(AgentKernelHandler):
    """The MCP servers, with their states."""

    async def get(self) -> None:
        self.answer(await self.service.mcp_servers.view())


class SignedInHandler(AgentKernelHandler):
    """Where a person's browser comes back to from signing in at an MCP server."""

    actions: ClassVar[Mapping[str, Action]] = {"GET": "execute"}

    async def get(self) -> None:
        code, state = self.get_query_argument("code", ""), self.get_query_argument("state", "")
        if not self.service.mcp_servers.come_back(code, state, self.get_query_argument("iss", None)):
            raise Refusal(404, "No MCP server waits for this. Ask for the address again: %agent tools.")
        self.answer({"message": "You are signed in. You can close this page."})


class ModelsHandler(AgentKernelHandler):
    async def get(self) -> None:
        self.answer(await self.service.models.listed())


class ConversationsHandler(AgentKernelHandler):
    actions = WRITING

    async def get(self) -> None:
        after, limit = self.get_query_argument("after", None), self.query_number("limit", -1)
        self.answer(await (await self.runtime()).list_conversations(after=after, limit=limit))

    async def post(self) -> None:
        body = self.read_body(NewConversation)
        if body.kernel_id is not None and not self.service.kernels.knows(body.kernel_id):
            raise Refusal(404, f"There is no kernel {body.kernel_id!r}.", field="kernel_id")
        conversation = await self.service.create_conversation(kernel_id=body.kernel_id, model=body.model)
        self.answer(await conversation.view(), 201)


class ConversationHandler(AgentKernelHandler):
    actions = WRITING

    async def get(self, conversation_id: str) -> None:
        conversation = await (await self.runtime()).conversation(conversation_id)
        self.answer(await conversation.view())

    async def delete(self, conversation_id: str) -> None:
        await (await self.runtime()).delete_conversation(conversation_id, decided_by=self.person)
        self.service.chats.forget(conversation_id)
        self.answer_nothing()


class RunsHandler(AgentKernelHandler):
    async def post(self, conversation_id: str) -> None:
        body = self.read_body(NewRun)
        asked = RunSpec(new_run_id(), body.content, watched=body.watched, effort=body.effort)
        await self.service.start_run(conversation_id, asked, asked_by=self.person)
        self.answer({"run_id": asked.run_id, "conversation_id": conversation_id}, 201)


class OpenRunsHandler(AgentKernelHandler):
    async def get(self) -> None:
        state = self.query_word("state", RUN_STATES)
        limit = self.query_number("limit", ENDED_RUNS)
        runs = await self.service.list_runs(limit, self.get_query_argument("run_id", None))
        self.answer(self.of_notebook([run for run in runs if state is None or state in _states(run)]))


class ApprovalsHandler(AgentKernelHandler):
    async def get(self) -> None:
        calls = await self.service.list_calls(self.query_word("state", CALL_STATES))
        self.answer(self.of_notebook(calls))


class ChangesHandler(AgentKernelHandler):
    """The changes of files and cells by a kernel's calls that can be undone, or were."""

    async def get(self) -> None:
        self.answer(await self.service.list_changes(self.get_query_argument("kernel_id")))


class RulesHandler(AgentKernelHandler):
    """The site's rules and the saved ones. Rules can't be created here: a person saves one by an answer to a card."""

    async def get(self) -> None:
        self.answer(await (await self.runtime()).list_rules())


class RuleHandler(AgentKernelHandler):
    async def delete(self, rule_id: str) -> None:
        await (await self.runtime()).remove_rule(rule_id, decided_by=self.person)
        self.answer_nothing()


def _states(run: RunView) -> set[str]:
    """The states by which the list of runs includes this one."""
    if run.status not in ("queued", "running"):
        return {run.status}
    return {"open", "paused" if run.paused else run.status}


class ClientsHandler(AgentKernelHandler):
    """The agents outside that have asked for calls, by notebook."""

    async def get(self) -> None:
        self.answer(self.of_notebook(await (await self.runtime()).list_clients()))


class ClientHandler(AgentKernelHandler):
    """Sends one of them away."""

    async def delete(self, client_id: str) -> None:
        await (await self.runtime()).send_client_away(client_id, decided_by=self.person)
        self.answer_nothing()


class AuditHandler(AgentKernelHandler):
    """The audit trail, the newest entry first: with `after`, only what was added after the entry of that number."""

    async def get(self) -> None:
        self.answer(await (await self.runtime()).audit(self.query_number("after", 0)))


class ReportHandler(AgentKernelHandler):
    async def get(self, name: str) -> None:
        days = self.query_number("days", STATS_DAYS)
        if not 1 <= days <= MOST_DAYS:
            raise Refusal(400, f"days: {days} is not a number from 1 to {MOST_DAYS}", field="days")
        runtime = await self.runtime()
        self.answer(await (runtime.usage(days) if name == "usage" else runtime.metrics(days)))


class ApprovalHandler(AgentKernelHandler):
    async def post(self, approval_id: str) -> None:
        decision = self.read_body(Decision)
        self.answer(await (await self.runtime()).route_decision(approval_id, decision, decided_by=self.person))


class OutcomeHandler(AgentKernelHandler):
    """Answers `Run again` or `Continue` for a call whose outcome is unknown."""

    async def post(self, approval_id: str) -> None:
        answer = self.read_body(OutcomeAnswer).answer
        self.answer(await (await self.runtime()).answer_unknown(approval_id, answer, decided_by=self.person))


class UndoHandler(AgentKernelHandler):
    """Puts back the file or cell that a call changed, or changes it again, during its run or after it."""

    async def post(self, approval_id: str, way: str) -> None:
        self.answer(await (await self.runtime()).undo(approval_id, redo=way == "redo", decided_by=self.person))


class CallAnswerHandler(AgentKernelHandler):
    """Cancels a call, or answers one that runs in a client, such as a question of the model. Sends the call as it is
    afterwards."""

    async def post(self, approval_id: str, name: str) -> None:
        output = self.read_body(ToolAnswer).output if name == "result" else None
        runtime = await self.runtime()
        call_id = (call := await runtime.find_call(approval_id)).tool_call_id
        cancel = ToolCancelCommand(tool_call_id=call_id)
        command = cancel if output is None else ToolResultCommand(tool_call_id=call_id, output=output)
        await handle_command(command, await runtime.conversation(call.conversation_id), self.person)
        self.answer(await runtime.find_call(approval_id))


class PolicyHandler(AgentKernelHandler):
    """Switches the policy of a conversation."""

    async def post(self, conversation_id: str) -> None:
        choice = self.read_body(PolicyChoice)
        conversation = await (await self.runtime()).conversation(conversation_id)
        switched = await conversation.switch_policy(
            choice.mode, decided_by=self.person, decide_waiting=choice.decide_waiting
        )
        self.answer(switched)


class RunAnswerHandler(AgentKernelHandler):
    """Handles a command for a run, and sends the run as it is afterwards."""

    async def post(self, conversation_id: str, run_id: str, name: str) -> None:
        if name == "budget":
            command: RunCommand = BudgetCommand(run_id=run_id, **dict(self.read_body(BudgetAnswer)))
        else:
            command = RUN_COMMANDS[name](run_id=run_id)
        runtime = await self.runtime()
        await handle_command(command, await runtime.conversation(conversation_id), self.person)
        self.answer(await runtime.run(run_id))


class UndoRunHandler(AgentKernelHandler):
    """Undoes what a run has changed in files and cells, where that is still as the run left it, or does it again."""

    async def post(self, conversation_id: str, run_id: str, way: str) -> None:
        runtime = await self.runtime()
        conversation = await runtime.conversation(conversation_id)
        if (await runtime.run(run_id)).conversation_id != conversation.conversation_id:
            raise UnknownRun(run_id)
        self.answer(await runtime.undo_run(run_id, redo=way == "redo", decided_by=self.person))


class UnknownRouteHandler(AgentKernelHandler):
    """Answers any other path below `agent-kernel/api` with JSON instead of the server's 404 page."""

    actions = WRITING

    async def get(self, path: str) -> None:
        raise Refusal(404, f"There is no route {path!r}.")

    post = delete = get


def front_end_folders() -> list[str]:
    """Where the built files are; empty if the widget is not installed here. Does not import the widget's package."""
    spec = importlib.util.find_spec("agent_kernel_widgets")
    places = spec.submodule_search_locations if spec is not None else None
    return [str(Path(place) / "static" / "parts") for place in places or ()]


_ID = r"([^/]+)"
_API = "agent-kernel/api"

FRONT_END = "agent-kernel/static/"
"""Served as Jupyter serves the files of its own page: to anyone who reaches the server. They are the same for
everybody, and a page's `import` brings no token."""
_FILE = r"((?:cards|part)-[0-9A-Z]{8}\.js)"
"""As the build names them: by their content, so that a file never changes under its name."""

HANDLERS: list[tuple[Any, ...]] = [
    (f"{FRONT_END}{_FILE}", FileFindHandler, {"path": front_end_folders()}),
    (rf"{_API}/status", StatusHandler),
    (rf"{_API}/tools", ToolsHandler),
    (rf"{_API}/mcp-servers", ServersHandler),
    (rf"{_API}/mcp-servers/signed-in", SignedInHandler),
    (rf"{_API}/(usage|metrics)", ReportHandler),
    (rf"{_API}/models", ModelsHandler),
    (rf"{_API}/conversations", ConversationsHandler),
    (rf"{_API}/conversations/{_ID}", ConversationHandler),
    (rf"{_API}/conversations/{_ID}/runs", RunsHandler),
    (rf"{_API}/conversations/{_ID}/policy", PolicyHandler),
    (rf"{_API}/conversations/{_ID}/runs/{_ID}/(budget|retry|try-now|cancel)", RunAnswerHandler),
    (rf"{_API}/conversations/{_ID}/runs/{_ID}/(undo|redo)", UndoRunHandler),
    (rf"{_API}/conversations/{_ID}/channel", ChannelHandler),
    (rf"{_API}/conversations/{_ID}/events", EventsHandler),
    (rf"{_API}/ai-sdk/chat", ChatHandler),
    (rf"{_API}/ai-sdk/chat/{_ID}", ChatMessagesHandler),
    (rf"{_API}/ai-sdk/chat/{_ID}/stream", ResumeHandler),
    (rf"{_API}/runs", OpenRunsHandler),
    (rf"{_API}/approvals", ApprovalsHandler),
    (rf"{_API}/approvals/{_ID}", ApprovalHandler),
    (rf"{_API}/approvals/{_ID}/outcome", OutcomeHandler),
    (rf"{_API}/approvals/{_ID}/(result|cancel)", CallAnswerHandler),
    (rf"{_API}/approvals/{_ID}/(undo|redo)", UndoHandler),
    (rf"{_API}/pages", PagesHandler),
    (MCP_PATH, McpHandler),
    (rf"{_API}/changes", ChangesHandler),
    (rf"{_API}/clients", ClientsHandler),
    (rf"{_API}/clients/{_ID}", ClientHandler),
    (rf"{_API}/audit", AuditHandler),
    (rf"{_API}/rules", RulesHandler),
    (rf"{_API}/rules/{_ID}", RuleHandler),
    (rf"{_API}/(.*)", UnknownRouteHandler),
]
