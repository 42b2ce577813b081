"""The host of a kernel whose server has the extension: the brain is there, and shows the run to pages itself."""

from agent_kernel.notebook.display import LiveView
from agent_kernel.notebook.link import ANNOUNCE_SECONDS, ANNOUNCE_TRIES, Link, install
from agent_kernel.notebook.place import is_served, kernel_of
from agent_kernel.notebook.run import Run, RunEnd
from agent_kernel.notebook.workshop import Workshop

UNHEARD = (
    f"The Jupyter server did not answer within {ANNOUNCE_SECONDS * ANNOUNCE_TRIES:g} s. Check that its extension is "
    "on (`jupyter server extension list` shows agent_kernel_server), then run the cell again."
)


class ServedHost:
    blocks = False

    def __init__(self, shop: Workshop) -> None:
        self._shop = shop
        self._link = Link(kernel_of(shop.shell))
        self._views: dict[str, LiveView] = {}
        self._failed: dict[str, RunEnd] = {}
        """The ends of runs whose model failed, and whose cards are still there."""

    def begin(self, run: Run) -> None:
        install()
        self._replace_failed(run.conversation_id)
        view = self._views[run.run_id] = LiveView(self._shop.shell, run, "server")
        run.shown_by(view.widget.model_id)
        view.show()
        self._link.announce(
            run.run_id,
            run.conversation_id,
            not is_served(self._shop.shell),
            run.heard,
            lambda: run.fail(UNHEARD),
        )

    def cancel(self, run: Run) -> None:
        self._link.send("cancel", run_id=run.run_id)

    def ended(self, run: Run, end: RunEnd) -> None:
        if end.run.error is not None and end.run.error.code == "LLM_ERROR":
            self._failed[run.run_id] = end  # its cards stay: the run can be tried again there
            return
        self._failed.pop(run.run_id, None)
        self._replace(run.run_id, end)

    def _replace_failed(self, conversation_id: str) -> None:
        """Something else is asked for, so what failed is not tried again: its record takes its place."""
        for run_id, end in list(self._failed.items()):
            if end.run.conversation_id == conversation_id:
                del self._failed[run_id]
                self._replace(run_id, end)

    def _replace(self, run_id: str, end: RunEnd) -> None:
        view = self._views.pop(run_id, None)
        if view is not None:
            view.replace(end)

    def settled(self, run: Run, end: RunEnd) -> None:
        """Nothing: the record is where the cards were."""
