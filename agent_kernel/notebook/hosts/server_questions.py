"""ServerQuestions: what a served kernel asks of its server. A first prompt asks nothing, and does not import it."""

from collections.abc import Sequence

from agent_kernel.notebook.kernel.link import Link
from agent_kernel.notebook.kernel.questions import ASK_TRIES
from agent_kernel.notebook.kernel.requests import install
from agent_kernel.notebook.kernel.state import KernelState
from agent_kernel.protocol.kernel_questions import (
    AnswerT,
    AskModels,
    AskRemoveRule,
    AskUndo,
    AskUsage,
    AskWaitingRuns,
    Question,
    WaitingRun,
)
from agent_kernel.protocol.lists import ModelsView, UsageReport

MODELS_TRIES = 10
"""Seconds to wait for a list of models: the endpoints have half of them."""


class ServerQuestions:
    """Each method waits for the answer. Raises `ServerSilent`."""

    def __init__(self, state: KernelState, link: Link, *, through_gateway: bool) -> None:
        """`through_gateway`: whether the server reaches this kernel through a gateway."""
        self._state = state
        self._link = link
        self._through_gateway = through_gateway

    def models(self) -> ModelsView:
        return self._ask(AskModels(), tries=MODELS_TRIES)

    def waiting_runs(self) -> Sequence[WaitingRun]:
        return self._ask(AskWaitingRuns()).runs

    def usage(self, days: int) -> UsageReport:
        return self._ask(AskUsage(days=days))

    def remove_rule(self, conversation_id: str, rule_id: str) -> None:
        self._ask(AskRemoveRule(conversation_id=conversation_id, rule_id=rule_id))

    def undo(self, approval_id: str) -> None:
        self._ask(AskUndo(approval_id=approval_id))

    def _ask(self, question: Question[AnswerT], tries: int = ASK_TRIES) -> AnswerT:
        install()  # the answer is a request
        routed = question.routed(through_gateway=self._through_gateway)
        return self._state.questions.ask(self._link.send, routed, tries)
