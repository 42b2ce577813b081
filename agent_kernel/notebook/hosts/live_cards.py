"""The live cards of the runs that a host carries out, and when each gives way to its record."""

from agent_kernel.notebook.hosts.live_view import LiveView
from agent_kernel.protocol.kernel import RunEnd


class Cards:
    """A run whose model failed keeps its cards, because it can be tried again there, until something else is asked of
    its conversation. For any thread."""

    def __init__(self) -> None:
        self.views: dict[str, LiveView] = {}
        """By the run's id."""
        self._failed: dict[str, RunEnd] = {}

    def ended(self, end: RunEnd, *, kept: bool = True) -> bool:
        """A run has ended. False where its cards stay; `kept` is whether they may."""
        if kept and end.run.error is not None and end.run.error.code == "LLM_ERROR":
            self._failed[end.run.run_id] = end
            return False
        self._replace(end)
        return True

    def show_here(self, run_id: str) -> bool:
        """Show the live cards in the cell that is being run, too. The record takes their place there as well."""
        view = self.views.get(run_id)
        if view is not None:
            view.show_elsewhere()
        return view is not None

    def goes_on(self, run_id: str) -> None:
        """A run that had failed is tried again."""
        self._failed.pop(run_id, None)

    def asked_for_more(self, conversation_id: str) -> list[str]:
        """Something else is asked of a conversation: what failed there is not tried again. The ids of those runs."""
        over = [end.run.run_id for end in list(self._failed.values()) if end.run.conversation_id == conversation_id]
        for run_id in over:
            self.give_up(run_id)
        return over

    def give_up(self, run_id: str) -> None:
        """A run that had failed is not tried again."""
        end = self._failed.pop(run_id, None)
        if end is not None:
            self._replace(end)

    def _replace(self, end: RunEnd) -> None:
        view = self.views.pop(end.run.run_id, None)
        if view is not None:
            view.replace(end)
