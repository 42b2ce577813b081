"""The host of a kernel whose server has the extension: the runtime is at the server, which also serves the pages."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future

from agent_kernel.notebook.hosts.live_view import LiveView, LiveViews
from agent_kernel.notebook.kernel.environment import is_served, kernel_of
from agent_kernel.notebook.kernel.requests import install
from agent_kernel.notebook.kernel.run_state import RunState
from agent_kernel.notebook.kernel.state import KernelState
from agent_kernel.notebook.kernel.to_server import ANNOUNCE_SECONDS, ANNOUNCE_TRIES, ASK_TRIES, ServerEvents
from agent_kernel.protocol.kernel_events import (
    AnswerT,
    AskMetrics,
    AskModels,
    AskRemoveRule,
    AskServers,
    AskUndo,
    AskUndoRun,
    AskUsage,
    AskWaitingRuns,
    CancelRun,
    Question,
    RunAnnounced,
    WaitingRun,
)
from agent_kernel.protocol.lists import ModelsView, RunUndoneView, ServersView, UsageReport
from agent_kernel.protocol.measures import MetricsReport
from agent_kernel.protocol.runs import RunResult
from agent_kernel.protocol.vocabulary import StopCause

MODELS_TRIES = 10
"""Seconds to wait for a list of models: the endpoints have half of them."""
NOT_ACKNOWLEDGED = (
    f"The Jupyter server did not answer within {ANNOUNCE_SECONDS * ANNOUNCE_TRIES:g} s. Check that its extension is "
    "on (`jupyter server extension list` shows agent_kernel_server), then run the cell again."
)


class ServedHost:
    blocks = False

    def __init__(self, state: KernelState) -> None:
        self._state = state
        self._events = ServerEvents(kernel_of(state.shell))
        self._views = LiveViews()

    def start(self, run: RunState) -> None:
        install()
        self._views.on_start(run.conversation_id, run.run_id)
        view = self._views.views[run.run_id] = LiveView(self._state.shell, run, "server")
        view.open()
        run.shown_by(view.model_id, prompt_in_cell=view.prompt_in_cell)
        view.show()
        announced = RunAnnounced(
            run_id=run.run_id, conversation_id=run.conversation_id, through_gateway=self._through_gateway
        )
        self._events.announce(announced, run.acknowledged, lambda: run.fail(NOT_ACKNOWLEDGED))

    @property
    def _through_gateway(self) -> bool:
        """Whether the server reaches this kernel through a gateway."""
        return not is_served(self._state.shell)

    def cancel(self, run: RunState, cause: StopCause) -> None:
        self._events.send(CancelRun(run_id=run.run_id, cause=cause))

    def list_models(self) -> Future[ModelsView]:
        listed: Future[ModelsView] = Future()
        threading.Thread(target=self._ask_for_models, args=(listed,), name="agent-kernel-models", daemon=True).start()
        return listed

    def _ask_for_models(self, listed: Future[ModelsView]) -> None:
        try:
            listed.set_result(self._ask(AskModels(), tries=MODELS_TRIES))
        except Exception as error:  # noqa: BLE001 -- the future carries it
            listed.set_exception(error)

    def servers(self) -> ServersView:
        return self._ask(AskServers(), tries=MODELS_TRIES)

    def show_here(self, run: RunState) -> bool:
        return self._views.show_here(run.run_id)

    def waiting_runs(self) -> Sequence[WaitingRun]:
        return self._ask(AskWaitingRuns()).runs

    def on_end(self, end: RunResult) -> None:
        self._views.on_end(end)

    def on_retry(self, run: RunState) -> None:
        self._views.on_retry(run.run_id)

    def on_waited(self, run: RunState, end: RunResult) -> None:
        """Nothing to do: the record has replaced the cards."""

    def usage(self, days: int) -> UsageReport:
        return self._ask(AskUsage(days=days))

    def metrics(self, days: int) -> MetricsReport:
        return self._ask(AskMetrics(days=days))

    def remove_rule(self, conversation_id: str, rule_id: str) -> None:
        self._ask(AskRemoveRule(conversation_id=conversation_id, rule_id=rule_id))

    def undo(self, approval_id: str) -> None:
        self._ask(AskUndo(approval_id=approval_id))

    def undo_run(self, run_id: str, *, redo: bool) -> RunUndoneView:
        return self._ask(AskUndoRun(run_id=run_id, redo=redo))

    def _ask(self, question: Question[AnswerT], tries: int = ASK_TRIES) -> AnswerT:
        """Ask the server and wait for its answer. Raises `ServerSilent`."""
        install()  # the answer is a request
        routed = question.routed(through_gateway=self._through_gateway)
        return self._state.questions.ask(self._events.send, routed, tries)
