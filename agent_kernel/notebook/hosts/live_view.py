"""The output of a run's cell: live cards while the run goes on, the static record when it has ended."""

import importlib
import uuid
from collections.abc import Mapping
from typing import Any, Literal

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from agent_kernel.notebook.kernel.environment import kernel_of, message_of
from agent_kernel.notebook.kernel.run_state import RunState
from agent_kernel.protocol.run_results import RunResult
from agent_kernel.protocol.vocabulary import RUN_VIEW
from agent_kernel.record import place_record, render_record

Transport = Literal["server", "kernel"]

VIEW = "application/vnd.jupyter.widget-view+json"
GOING_ON = "Agent run: going on. Its cards are shown where widgets are."


class LiveView:
    """The widget in the cell's output, until the record replaces it."""

    def __init__(self, shell: InteractiveShell, run: RunState, transport: Transport) -> None:
        self._kernel: Any = kernel_of(shell)
        self._topic = getattr(shell.display_pub, "topic", b"display_data")
        self._parent = message_of(shell)
        self._run_id = run.run_id
        self.prompt_in_cell = is_in_cell(run.prompt, self._parent)
        self._elsewhere: list[str] = []
        self.model_id = uuid.uuid4().hex
        self._state: dict[str, Any] = {
            "conversation_id": run.conversation_id,
            "run_id": run.run_id,
            "prompt": run.prompt,
            "transport": transport,
        }
        if transport == "kernel":
            self._state["unserved"] = run.model is None or isinstance(run.model, str)
        self._drawn_by_server = {"run_id": run.run_id} if transport == "server" else {}
        self.widget: Any = None
        """Set by `open`."""

    def open(self) -> None:
        """Open the widget, which shows nothing yet. Raises `ImportError` where its front end is not built."""
        widgets = importlib.import_module("agent_kernel_widgets")  # not in a notebook that runs without a page
        self.widget = widgets.AgentRun(model_id=self.model_id, **self._state)

    def show(self) -> None:
        """Show the widget in the current cell. The record will replace it, followed by the run's results."""
        self._show(self._run_id)

    def show_elsewhere(self) -> None:
        """Show the widget in another cell as well. The record that replaces it there contains the results."""
        self._elsewhere.append(f"{self._run_id}-{len(self._elsewhere) + 1}")
        self._show(self._elsewhere[-1])

    def _show(self, display_id: str) -> None:
        # The text is for front ends without widgets. It is always the same, because nbval compares it.
        view = {"version_major": 2, "version_minor": 1, "model_id": self.model_id}
        data = {RUN_VIEW: self._drawn_by_server, VIEW: view, "text/plain": GOING_ON}
        display(data, raw=True, display_id=display_id)

    def replace(self, end: RunResult) -> None:
        """Replace the widget by the record. For any thread.

        The bundle has no widget view: a saved notebook that has one shows "model not found" when it is opened again.
        """
        if end.placed:
            return
        placed = place_record(end.run, end.messages, end.tool_calls, below_prompt=self.prompt_in_cell)
        self._send("update_display_data", placed.record, {}, {"display_id": self._run_id})
        for result in () if end.cleared else placed.results:
            # A page adds it to the cell, which has ended long ago. A page that was reloaded does not; there the server
            # puts it into the file.
            self._send("display_data", result.data, result.metadata, {})
        if self._elsewhere:
            record = render_record(end.run, end.messages, end.tool_calls)
            for display_id in self._elsewhere:
                self._send("update_display_data", record, {}, {"display_id": display_id})
        # The widget stays open: a page that was reloaded meanwhile does not know the display, and goes on showing the
        # widget with the end of the run. It would show nothing if the widget's model were closed.

    def _send(self, kind: str, data: Mapping[str, Any], metadata: Mapping[str, Any], transient: dict[str, str]) -> None:
        content = {"data": data, "metadata": metadata, "transient": transient}
        self._kernel.session.send(self._kernel.iopub_socket, kind, content, parent=self._parent, ident=self._topic)


class LiveViews:
    """The live views of a host's runs, and when each is replaced by the record. For any thread.

    A run whose model failed keeps its cards, where it can be tried again, until its conversation has a new run.
    """

    def __init__(self) -> None:
        self.views: dict[str, LiveView] = {}
        """By the run's id."""
        self._failed: dict[str, RunResult] = {}
        self._last: dict[str, str] = {}
        """The last run of each conversation that has started."""

    def on_start(self, conversation_id: str, run_id: str) -> list[str]:
        """A new run of this conversation starts. Returns the ids of the failed runs that this gives up."""
        self._last[conversation_id] = run_id
        failed = [end.run.run_id for end in list(self._failed.values()) if end.run.conversation_id == conversation_id]
        for earlier in failed:
            self.give_up(earlier)
        return failed

    def on_end(self, end: RunResult, *, may_stay: bool = True) -> bool:
        """A run has ended. Whether its cards were replaced; `may_stay` is false where it can't be tried again."""
        if not may_stay or end.run.error is None or end.run.error.code != "LLM_ERROR":
            self._replace(end)
            return True
        self._failed[end.run.run_id] = end
        if self._last.get(end.run.conversation_id) == end.run.run_id:
            return False
        self.give_up(end.run.run_id)  # after Run All the next one has started by then
        return True

    def on_retry(self, run_id: str) -> None:
        """A run that had failed is tried again."""
        self._failed.pop(run_id, None)

    def give_up(self, run_id: str) -> None:
        """A run that had failed is not tried again: show its record."""
        end = self._failed.pop(run_id, None)
        if end is not None:
            self._replace(end)

    def show_here(self, run_id: str) -> bool:
        """Show a run's live cards in the current cell as well. False where it has none."""
        view = self.views.get(run_id)
        if view is not None:
            view.show_elsewhere()
        return view is not None

    def _replace(self, end: RunResult) -> None:
        view = self.views.pop(end.run.run_id, None)
        if view is not None:
            view.replace(end)


def show_record(shell: InteractiveShell, end: RunResult) -> None:
    """Show the record as new outputs, where no widget was shown. nbval does not compare updated displays."""
    below = is_in_cell(end.run.prompt, message_of(shell))
    placed = place_record(end.run, end.messages, end.tool_calls, below_prompt=below)
    display(placed.record, raw=True)
    for result in placed.results:
        display(result.data, metadata=result.metadata, raw=True)


def is_in_cell(prompt: str, parent: dict[str, Any]) -> bool:
    """Whether the source of the cell that `parent`, an execute request, runs contains the prompt."""
    source = (parent.get("content") or {}).get("code")
    return bool(prompt.strip()) and isinstance(source, str) and prompt.strip() in source
