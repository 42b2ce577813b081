"""The host of a kernel whose server has the extension: the runtime is there, and shows the run to pages itself."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future

from agent_kernel.notebook.hosts.live_cards import Cards
from agent_kernel.notebook.hosts.live_view import LiveView
from agent_kernel.notebook.kernel.environment import is_served, kernel_of
from agent_kernel.notebook.kernel.link import ANNOUNCE_SECONDS, ANNOUNCE_TRIES, Link, install
from agent_kernel.notebook.kernel.state import KernelState
from agent_kernel.notebook.questions import ASK_TRIES
from agent_kernel.notebook.run_state import RunState
from agent_kernel.protocol.ids import new_question_id
from agent_kernel.protocol.kernel import RunEnd
from agent_kernel.protocol.kernel_events import (
    AnswerT,
    AskModels,
    AskRemoveRule,
    AskUndo,
    AskUsage,
    AskWaitingRuns,
    CancelRun,
    Question,
    RunAnnounced,
    WaitingRun,
)
from agent_kernel.protocol.views import ModelsView, UsageReport
from agent_kernel.protocol.vocabulary import StopCause

MODELS_TRIES = 10
"""Seconds for which a list of models is waited for: the endpoints have half of them."""
UNHEARD = (
    f"The Jupyter server did not answer within {ANNOUNCE_SECONDS * ANNOUNCE_TRIES:g} s. Check that its extension is "
    "on (`jupyter server extension list` shows agent_kernel_server), then run the cell again."
)


class ServedHost:
    blocks = False

    def __init__(self, state: KernelState) -> None:
        self._state = state
        self._link = Link(kernel_of(state.shell))
        self._cards = Cards()

    def begin(self, run: RunState) -> None:
        install()
        self._cards.asked_for_more(run.conversation_id)
        view = self._cards.views[run.run_id] = LiveView(self._state.shell, run, "server")
        run.shown_by(view.widget.model_id, prompt_in_cell=view.prompt_in_cell)
        view.show()
        announced = RunAnnounced(
            run_id=run.run_id, conversation_id=run.conversation_id, through_gateway=self._through_gateway
        )
        self._link.announce(announced, run.heard, lambda: run.fail(UNHEARD))

    @property
    def _through_gateway(self) -> bool:
        """Whether the server reaches this kernel through a gateway."""
        return not is_served(self._state.shell)

    def cancel(self, run: RunState, cause: StopCause) -> None:
        self._link.send(CancelRun(run_id=run.run_id, cause=cause))

    def list_models(self) -> Future[ModelsView]:
        install()
        listed: Future[ModelsView] = Future()
        threading.Thread(target=self._ask_for_models, args=(listed,), name="agent-kernel-models", daemon=True).start()
        return listed

    def _ask_for_models(self, listed: Future[ModelsView]) -> None:
        try:
            question = AskModels(question_id=new_question_id(), through_gateway=self._through_gateway)
            listed.set_result(self._ask(question, tries=MODELS_TRIES))
        except Exception as error:  # noqa: BLE001 -- whoever waits for the list hears of it
            listed.set_exception(error)

    def show_here(self, run: RunState) -> bool:
        return self._cards.show_here(run.run_id)

    def waiting(self) -> Sequence[WaitingRun]:
        question = AskWaitingRuns(question_id=new_question_id(), through_gateway=self._through_gateway)
        return self._ask(question).runs

    def ended(self, end: RunEnd) -> None:
        self._cards.ended(end)

    def goes_on(self, run: RunState) -> None:
        self._cards.goes_on(run.run_id)

    def settled(self, run: RunState, end: RunEnd) -> None:
        """Nothing: the record is where the cards were."""

    def usage(self, days: int) -> UsageReport:
        install()
        return self._ask(AskUsage(question_id=new_question_id(), through_gateway=self._through_gateway, days=days))

    def remove_rule(self, conversation_id: str, rule_id: str) -> None:
        install()
        self._ask(
            AskRemoveRule(
                question_id=new_question_id(),
                through_gateway=self._through_gateway,
                conversation_id=conversation_id,
                rule_id=rule_id,
            )
        )

    def undo(self, approval_id: str) -> None:
        install()
        self._ask(
            AskUndo(question_id=new_question_id(), through_gateway=self._through_gateway, approval_id=approval_id)
        )

    def _ask(self, question: Question[AnswerT], tries: int = ASK_TRIES) -> AnswerT:
        """Raises `ServerSilent`."""
        return self._state.questions.ask(self._link.send, question, tries)
