"""Answers to the questions of a kernel's cells. A kernel speaks for its own runs, calls and conversations only."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from typing import assert_never

from pydantic import BaseModel

from agent_kernel.errors import AgentKernelError, UnknownRule, UnknownRun
from agent_kernel.protocol.kernel import AnswerQuestion
from agent_kernel.protocol.kernel_events import (
    Answer,
    AnyQuestion,
    AskInterrupt,
    AskMetrics,
    AskModels,
    AskRemoveRule,
    AskServers,
    AskUndoRun,
    AskUsage,
    AskWaitingRuns,
    InterruptKnown,
    WaitingRun,
    WaitingRuns,
)
from agent_kernel.protocol.lists import RunUndoneView
from agent_kernel.runtime.conversation import Conversation
from agent_kernel_server.kernels.shared import Shared


class Answers:
    """One per kernel."""

    def __init__(
        self,
        kernel_id: str,
        shared: Shared,
        *,
        conversations: Mapping[str, Conversation],
        open_runs: Collection[str],
        was_interrupted: Callable[[float], Awaitable[bool]],
    ) -> None:
        """`conversations` and `open_runs` are the kernel's. `was_interrupted`: see `AskInterrupt`."""
        self._kernel_id = kernel_id
        self._shared = shared
        self._conversations = conversations
        self._open_runs = open_runs
        self._was_interrupted = was_interrupted
        self._undoing = asyncio.Lock()

    async def answer(self, question: AnyQuestion) -> AnswerQuestion:
        try:
            answer = await self._answer_to(question)
        except AgentKernelError as error:
            return AnswerQuestion(question_id=question.question_id, refusal=str(error))
        return AnswerQuestion(question_id=question.question_id, answer=answer.model_dump(mode="json"))

    async def _answer_to(self, question: AnyQuestion) -> BaseModel:
        """Of the question's `answer_type`."""
        match question:
            case AskUsage():
                return await (await self._shared.runtime()).usage(question.days)
            case AskMetrics():
                return await (await self._shared.runtime()).metrics(question.days)
            case AskModels():
                return await self._shared.list_models()
            case AskServers():
                found = await self._shared.list_servers()
                short = {"description": "", "parameters": {}}
                return found.model_copy(update={"tools": [tool.model_copy(update=short) for tool in found.tools]})
            case AskWaitingRuns():
                return WaitingRuns(runs=await self._waiting_runs())
            case AskRemoveRule():
                await self._remove_rule(question)
            case AskInterrupt():
                return InterruptKnown(asked_for=await self._was_interrupted(question.seconds))
            case AskUndoRun():
                return await self._undo_run(question)
            case _:
                assert_never(question)
        return Answer()

    async def _waiting_runs(self) -> tuple[WaitingRun, ...]:
        """The open runs, each with its notebook where several use the kernel."""
        listed = await self._shared.records.paths.follow(await (await self._shared.runtime()).list_runs(ended=0))
        several = len((await self._shared.records.paths.by_kernel()).get(self._kernel_id, ())) > 1
        return tuple(
            WaitingRun(
                run_id=run.run_id,
                tool_names=tuple(run.waiting_tools),
                notebook=run.notebook if several else None,
            )
            for run in listed
            if run.run_id in self._open_runs
        )

    async def _remove_rule(self, question: AskRemoveRule) -> None:
        conversation = self._conversations.get(question.conversation_id)
        if conversation is None:
            raise UnknownRule(question.rule_id)
        with suppress(UnknownRule):  # removed already: the question was repeated
            await conversation.remove_rule(question.rule_id, by="script")

    async def _undo_run(self, question: AskUndoRun) -> RunUndoneView:
        runtime = await self._shared.runtime()
        async with self._undoing:
            run = await runtime.run(question.run_id)
            if (await runtime.conversation(run.conversation_id)).kernel_id != self._kernel_id:
                raise UnknownRun(run.run_id)
            return await runtime.undo_run(run.run_id, redo=question.redo, by="script")
