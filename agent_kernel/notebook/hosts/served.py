"""The host of a kernel whose server has the extension: the runtime is at the server, which also serves the pages."""

import functools
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from agent_kernel.notebook.hosts.live_view import LiveView, LiveViews
from agent_kernel.notebook.kernel.environment import is_served, kernel_of
from agent_kernel.notebook.kernel.link import ANNOUNCE_SECONDS, ANNOUNCE_TRIES, Link
from agent_kernel.notebook.kernel.requests import install
from agent_kernel.notebook.kernel.run_state import RunState
from agent_kernel.notebook.kernel.state import KernelState
from agent_kernel.protocol.first_prompt import RunAnnounced
from agent_kernel.protocol.vocabulary import StopCause

if TYPE_CHECKING:
    from agent_kernel.notebook.hosts.server_questions import ServerQuestions
    from agent_kernel.protocol.kernel_questions import WaitingRun
    from agent_kernel.protocol.lists import ModelsView, UsageReport
    from agent_kernel.protocol.runs import RunResult

READY_SECONDS = 0.5
"""How long after its first prompt a kernel imports what its widgets and calls need. Together with the page, which draws
the first words meanwhile, it would hold up both."""
NOT_ACKNOWLEDGED = (
    f"The Jupyter server did not answer within {ANNOUNCE_SECONDS * ANNOUNCE_TRIES:g} s. Check that its extension is "
    "on (`jupyter server extension list` shows agent_kernel_server), then run the cell again."
)


class ServedHost:
    blocks = False

    def __init__(self, state: KernelState) -> None:
        self._state = state
        self._link = Link(kernel_of(state.shell))
        self._views = LiveViews()

    def start(self, run: RunState) -> None:
        install()
        self._views.on_start(run.conversation_id, run.run_id)
        view = self._views.views[run.run_id] = LiveView(self._state.shell, run, "server")
        run.shown_by(view.model_id, prompt_in_cell=view.prompt_in_cell)
        view.show_opened()
        self._announce(run)
        if "ipywidgets" in sys.modules:
            view.open()
        else:
            ready = threading.Timer(READY_SECONDS, self._get_ready, (view,))
            ready.name, ready.daemon = "agent-kernel-ready", True
            ready.start()

    def _get_ready(self, view: LiveView) -> None:
        """In a thread of its own: the user's next cell may take long, and a page that is reloaded meanwhile asks for
        all widgets of the kernel."""
        view.open()
        _ = self._state.runner

    def _announce(self, run: RunState) -> None:
        announced = RunAnnounced(
            run.run_id, run.conversation_id, through_gateway=True if self._through_gateway else None
        )
        self._link.announce(announced, run.acknowledged, lambda: run.fail(NOT_ACKNOWLEDGED))

    @property
    def _through_gateway(self) -> bool:
        """Whether the server reaches this kernel through a gateway."""
        return not is_served(self._state.shell)

    def cancel(self, run: RunState, cause: StopCause) -> None:
        from agent_kernel.protocol.kernel_events import CancelRun

        self._link.send(CancelRun(run_id=run.run_id, cause=cause))

    @functools.cached_property
    def _server(self) -> "ServerQuestions":
        """Imported when the server is asked something, which no first prompt waits for."""
        from agent_kernel.notebook.hosts.server_questions import ServerQuestions

        return ServerQuestions(self._state, self._link, through_gateway=self._through_gateway)

    def list_models(self) -> "Future[ModelsView]":
        listed: Future[ModelsView] = Future()
        threading.Thread(target=self._ask_for_models, args=(listed,), name="agent-kernel-models", daemon=True).start()
        return listed

    def _ask_for_models(self, listed: "Future[ModelsView]") -> None:
        try:
            listed.set_result(self._server.models())
        except Exception as error:  # noqa: BLE001 -- the future carries it
            listed.set_exception(error)

    def show_here(self, run: RunState) -> bool:
        return self._views.show_here(run.run_id)

    def waiting_runs(self) -> "Sequence[WaitingRun]":
        return self._server.waiting_runs()

    def on_end(self, end: "RunResult") -> None:
        self._views.on_end(end)

    def on_retry(self, run: RunState) -> None:
        self._views.on_retry(run.run_id)

    def on_waited(self, run: RunState, end: "RunResult") -> None:
        """Nothing to do: the record has replaced the cards."""

    def usage(self, days: int) -> "UsageReport":
        return self._server.usage(days)

    def remove_rule(self, conversation_id: str, rule_id: str) -> None:
        self._server.remove_rule(conversation_id, rule_id)

    def undo(self, approval_id: str) -> None:
        self._server.undo(approval_id)
