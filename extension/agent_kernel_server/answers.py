"""The routes by which a person answers a run: a decision, more budget, what is to become of a call whose outcome is
unknown, one more try with a model that failed, Stop. A script that has no page can do all that a card can.

What an answer does, and which of two counts, is the loop's: the channel's commands go the same way.
"""

from jupyter_server.auth.decorator import authorized
from pydantic import BaseModel, ConfigDict
from tornado import web

from agent_kernel.errors import InvalidArguments
from agent_kernel.protocol.commands import (
    BudgetAnswer,
    BudgetCommand,
    CancelCommand,
    Decision,
    PolicyChoice,
    RunRetryCommand,
)
from agent_kernel.protocol.vocabulary import UnknownAnswer
from agent_kernel.runtime.clients.commands import handle_command
from agent_kernel_server.requests import AgentKernelHandler, Refusal


class OutcomeAnswer(BaseModel):
    """The body of `POST approvals/{approval_id}/outcome`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    answer: UnknownAnswer


class ApprovalHandler(AgentKernelHandler):
    @web.authenticated
    @authorized("execute")
    async def post(self, approval_id: str) -> None:
        decision = self.read_body(Decision)
        self.send(await (await self.runtime()).decide(approval_id, decision, decided_by=self.person))


class OutcomeHandler(AgentKernelHandler):
    """Run again or Continue, for a call whose outcome is unknown."""

    @web.authenticated
    @authorized("execute")
    async def post(self, approval_id: str) -> None:
        answer = self.read_body(OutcomeAnswer).answer
        self.send(await (await self.runtime()).answer_unknown(approval_id, answer, decided_by=self.person))


class UndoHandler(AgentKernelHandler):
    """Put back the file that a call replaced, while its run goes on or after it."""

    @web.authenticated
    @authorized("execute")
    async def post(self, approval_id: str) -> None:
        self.send(await (await self.runtime()).undo(approval_id, decided_by=self.person))


class PolicyHandler(AgentKernelHandler):
    """Switch the policy of a conversation."""

    @web.authenticated
    @authorized("execute")
    async def post(self, conversation_id: str) -> None:
        choice = self.read_body(PolicyChoice)
        conversation = await (await self.runtime()).conversation(conversation_id)
        try:
            switched = await conversation.switch_policy(choice.mode, decided_by=self.person)
        except InvalidArguments as error:
            raise Refusal(400, str(error), field="mode") from error
        self.send(switched)


class RunAnswerHandler(AgentKernelHandler):
    async def act(self, conversation_id: str, command: BudgetCommand | RunRetryCommand | CancelCommand) -> None:
        """Do what is asked of a run, and answer with the run as it is then."""
        runtime = await self.runtime()
        await handle_command(command, await runtime.conversation(conversation_id), self.person)
        self.send(await runtime.run(command.run_id))


class BudgetHandler(RunAnswerHandler):
    @web.authenticated
    @authorized("execute")
    async def post(self, conversation_id: str, run_id: str) -> None:
        answer = self.read_body(BudgetAnswer)
        try:
            await self.act(conversation_id, BudgetCommand(run_id=run_id, **dict(answer)))
        except InvalidArguments as error:
            raise Refusal(400, str(error), field="add") from error


class RetryHandler(RunAnswerHandler):
    @web.authenticated
    @authorized("execute")
    async def post(self, conversation_id: str, run_id: str) -> None:
        await self.act(conversation_id, RunRetryCommand(run_id=run_id))


class CancelHandler(RunAnswerHandler):
    @web.authenticated
    @authorized("execute")
    async def post(self, conversation_id: str, run_id: str) -> None:
        await self.act(conversation_id, CancelCommand(run_id=run_id))
