"""What a run's cell shows: live cards while it goes, the record when it has ended."""

import importlib
from typing import Any, Literal

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from agent_kernel.notebook.place import kernel_of
from agent_kernel.notebook.run import RunEnd, RunState

Transport = Literal["server", "kernel"]
Hearing = Literal["usually", "between-cells"]


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
        widgets = importlib.import_module("agent_kernel_widgets")
        self.widget: Any = widgets.AgentRun(
            conversation_id=run.conversation_id,
            run_id=run.run_id,
            prompt=run.prompt,
            transport=transport,
            hearing=hearing,
        )

    def show(self) -> None:
        data, metadata = self.widget._repr_mimebundle_()
        # For where no widget can be shown; the same words each time, as tests compare them.
        data["text/plain"] = "Agent run: going on. Its cards are shown where widgets are."
        display(data, metadata=metadata, raw=True, display_id=self._run_id)

    def say_hearing(self, hearing: Hearing) -> None:
        """Tell pages whether a click is heard while a cell runs."""
        self.widget.hearing = hearing

    def replace(self, end: RunEnd) -> None:
        """Put the record in the widget's place, from any thread.

        The bundle has no widget view: a saved notebook that has one says "model not found" when it is opened again.
        """
        content = {
            "data": record_of(end, below_prompt=self.prompt_in_cell),
            "metadata": {},
            "transient": {"display_id": self._run_id},
        }
        self._kernel.session.send(
            self._kernel.iopub_socket, "update_display_data", content, parent=self._parent, ident=self._topic
        )
        # The widget stays open: a page that was reloaded meanwhile does not know the display, goes on showing the
        # widget with the end of the run, and would show nothing at all if its model were closed.


def show_record(shell: InteractiveShell, end: RunEnd) -> None:
    """A display of its own, for where no widget was shown. nbval does not look at updated displays."""
    kernel = kernel_of(shell)
    below = kernel is not None and is_in_cell(end.run.prompt, kernel.get_parent("shell"))
    display(record_of(end, below_prompt=below), raw=True)


def is_in_cell(prompt: str, parent: dict[str, Any]) -> bool:
    """Whether the request to run a cell has the prompt in the cell's source, where a reader sees it."""
    source = (parent.get("content") or {}).get("code")
    return bool(prompt.strip()) and isinstance(source, str) and prompt.strip() in source


def record_of(end: RunEnd, *, below_prompt: bool = False) -> dict[str, str]:
    from agent_kernel.record import render_record

    return render_record(end.run, end.messages, end.tool_calls, below_prompt=below_prompt)
