"""What a run's cell shows: live cards while it goes, the record when it has ended."""

import importlib
from collections.abc import Mapping
from typing import Any, Literal

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from agent_kernel.notebook.kernel.environment import kernel_of
from agent_kernel.notebook.run_state import RunState
from agent_kernel.protocol.kernel import RunEnd

Transport = Literal["server", "kernel"]
Hearing = Literal["usually", "between-cells"]


GOING_ON = "Agent run: going on. Its cards are shown where widgets are."


class LiveView:
    """The widget in the cell's output, until the record takes its place."""

    def __init__(
        self, shell: InteractiveShell, run: RunState, transport: Transport, hearing: Hearing = "usually"
    ) -> None:
        kernel: Any = kernel_of(shell)
        self._kernel = kernel
        self._topic = getattr(shell.display_pub, "topic", b"display_data")
        self._parent: Any = kernel.get_parent("shell")
        self._run_id = run.run_id
        self.prompt_in_cell = is_in_cell(run.prompt, self._parent)
        self._elsewhere: list[str] = []
        widgets = importlib.import_module("agent_kernel_widgets")
        self.widget: Any = widgets.AgentRun(
            conversation_id=run.conversation_id,
            run_id=run.run_id,
            prompt=run.prompt,
            transport=transport,
            hearing=hearing,
        )

    def show(self) -> None:
        """In the cell that is being run. The record comes there in its place, and the run's results after it."""
        self._show(self._run_id)

    def show_elsewhere(self) -> None:
        """In another cell as well. A record comes there too, which has copies of the results: they stand once."""
        self._elsewhere.append(f"{self._run_id}-{len(self._elsewhere) + 1}")
        self._show(self._elsewhere[-1])

    def _show(self, display_id: str) -> None:
        data, metadata = self.widget._repr_mimebundle_()
        # For where no widget can be shown; the same words each time, as tests compare them.
        data["text/plain"] = GOING_ON
        data["text/html"] = f"<p>{GOING_ON}</p>"
        display(data, metadata=metadata, raw=True, display_id=display_id)

    def say_hearing(self, hearing: Hearing) -> None:
        """Tell pages whether a click is heard while a cell runs."""
        self.widget.hearing = hearing

    def replace(self, end: RunEnd) -> None:
        """Put the record in the widget's place, from any thread.

        The bundle has no widget view: a saved notebook that has one says "model not found" when it is opened again.
        """
        from agent_kernel.record import place_record, render_record

        placed = place_record(end.run, end.messages, end.tool_calls, below_prompt=self.prompt_in_cell)
        self._send("update_display_data", placed.record, {}, {"display_id": self._run_id})
        for result in () if end.cleared else placed.results:
            # A page adds it to the cell, which has ended long ago. One that was loaded again does not; the server puts
            # it into the file.
            self._send("display_data", result.data, result.metadata, {})
        if self._elsewhere:
            record = render_record(end.run, end.messages, end.tool_calls)
            for display_id in self._elsewhere:
                self._send("update_display_data", record, {}, {"display_id": display_id})
        # The widget stays open: a page that was reloaded meanwhile does not know the display, goes on showing the
        # widget with the end of the run, and would show nothing at all if its model were closed.

    def _send(self, kind: str, data: Mapping[str, Any], metadata: Mapping[str, Any], transient: dict[str, str]) -> None:
        content = {"data": data, "metadata": metadata, "transient": transient}
        self._kernel.session.send(self._kernel.iopub_socket, kind, content, parent=self._parent, ident=self._topic)


def show_record(shell: InteractiveShell, end: RunEnd) -> None:
    """Displays of its own, for where no widget was shown. nbval does not look at updated displays."""
    from agent_kernel.record import place_record

    kernel = kernel_of(shell)
    below = kernel is not None and is_in_cell(end.run.prompt, kernel.get_parent("shell"))
    placed = place_record(end.run, end.messages, end.tool_calls, below_prompt=below)
    display(placed.record, raw=True)
    for result in placed.results:
        display(result.data, metadata=result.metadata, raw=True)


def is_in_cell(prompt: str, parent: dict[str, Any]) -> bool:
    """Whether the request to run a cell has the prompt in the cell's source, where a reader sees it."""
    source = (parent.get("content") or {}).get("code")
    return bool(prompt.strip()) and isinstance(source, str) and prompt.strip() in source
