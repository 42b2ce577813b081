"""A client's commands, carried out. Both hosts go through here."""

from typing import assert_never

from agent_kernel.protocol.commands import (
    ApprovalResponseCommand,
    BudgetCommand,
    CancelCommand,
    ClientCommand,
    Decision,
    MessageCommand,
    PingCommand,
    PolicyCommand,
    ResumeCommand,
    RuleRemoveCommand,
    RunRetryCommand,
    ShownCommand,
    ToolCancelCommand,
    ToolContinueCommand,
    ToolResultCommand,
    ToolRetryCommand,
    ToolUndoCommand,
)
from agent_kernel.protocol.views import BudgetLimits
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.runs.stop import Stop

CallCommand = ToolResultCommand | ToolCancelCommand | ToolRetryCommand | ToolContinueCommand | ToolUndoCommand


async def handle_command(command: ClientCommand, conversation: Conversation, person: str | None = None) -> None:
    """Do what a client asks. Raises what the runtime raises; then nothing has changed."""
    match command:
        case MessageCommand():
            await conversation.send_message(command.content, decided_by=person)
        case ApprovalResponseCommand():
            decision = Decision.model_validate(command.model_dump(exclude={"type", "approval_id"}))
            await conversation.decide(command.approval_id, decision, decided_by=person)
        case ToolResultCommand() | ToolCancelCommand() | ToolRetryCommand() | ToolContinueCommand() | ToolUndoCommand():
            await _handle_call_command(command, conversation, person)
        case RuleRemoveCommand():
            await conversation.remove_rule(command.rule_id, decided_by=person)
        case PolicyCommand():
            await conversation.switch_policy(command.mode, decided_by=person)
        case BudgetCommand():
            add = BudgetLimits.model_validate(command.add.model_dump())
            await conversation.raise_budget(
                command.run_id, command.pause_id, add, without_usd=command.without_usd, decided_by=person
            )
        case RunRetryCommand():
            await conversation.retry_run(command.run_id)
        case CancelCommand():
            await conversation.cancel_run(command.run_id, Stop(decided_by=person))
        case ResumeCommand() | ShownCommand() | PingCommand():
            return  # answered by the connection itself
        case _:
            assert_never(command)


async def _handle_call_command(command: CallCommand, conversation: Conversation, person: str | None) -> None:
    match command:
        case ToolResultCommand():
            await conversation.tool_result(command.tool_call_id, command.output)
        case ToolCancelCommand():
            await conversation.cancel_call(command.tool_call_id, Stop(decided_by=person))
        case ToolRetryCommand():
            await conversation.retry_call(command.tool_call_id, decided_by=person)
        case ToolContinueCommand():
            await conversation.answer_unknown(command.tool_call_id, "continue", decided_by=person)
        case ToolUndoCommand():
            await conversation.undo_call(command.tool_call_id, decided_by=person)
        case _:
            assert_never(command)
