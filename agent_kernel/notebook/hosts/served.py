"""The host of a kernel whose server has the extension: the runtime is at the server, which also serves the pages."""

from agent_kernel.notebook.hosts.live_view import LiveView, LiveViews
from agent_kernel.notebook.kernel.environment import is_served, kernel_of
from agent_kernel.notebook.kernel.requests import install
from agent_kernel.notebook.kernel.run_state import RunState
from agent_kernel.notebook.kernel.state import KernelState
from agent_kernel.notebook.kernel.to_server import ANNOUNCE_SECONDS, ANNOUNCE_TRIES, ASK_TRIES, ServerEvents
from agent_kernel.protocol.kernel_events import (
    AnswerT,
    AskModels,
    AskServers,
    CancelRun,
    Question,
    RunAnnounced,
)
from agent_kernel.protocol.run_results import RunResult
from agent_kernel.protocol.vocabulary import StopCause

LISTED_TRIES = 10
"""Seconds to wait for a list of models or MCP servers: the endpoints have half of them."""
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

    def show_here(self, run: RunState) -> bool:
        return self._views.show_here(run.run_id)

    def on_end(self, end: RunResult) -> None:
        self._views.on_end(end)

    def on_retry(self, run: RunState) -> None:
        self._views.on_retry(run.run_id)

    def on_waited(self, run: RunState, end: RunResult) -> None:
        """Nothing to do: the record has replaced the cards."""

    def ask(self, question: Question[AnswerT]) -> AnswerT:
        install()  # the answer is a request
        tries = LISTED_TRIES if isinstance(question, AskModels | AskServers) else ASK_TRIES
        routed = question.routed(through_gateway=self._through_gateway)
        return self._state.questions.ask(self._events.send, routed, tries)
