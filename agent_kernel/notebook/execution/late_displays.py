"""What a call's code shows after the call has ended: a timer, a thread or a task that lives on.

While the run is open it is shown by the call's card. After that it goes out as the call's own request, which is no
cell's: JupyterLab lists it in its log. It never comes below the cell that the user happens to run.
"""

import contextvars
import threading
from collections.abc import Callable, Mapping
from typing import Any

from agent_kernel.notebook.execution.capture import OutputCapture

MOST_LATE = 100
"""Displays of one call that are taken after its end."""


class CallDisplays:
    """Where the code of one call shows things, for as long as any of it goes on."""

    def __init__(self, capture: OutputCapture, is_open: Callable[[], bool], request: Mapping[str, Any]) -> None:
        """`request` is the header of the one that the call runs in."""
        self._capture = capture
        self._is_open = is_open
        self._request = dict(request)
        self._left = MOST_LATE

    @property
    def capture(self) -> OutputCapture:
        return self._capture

    def are_of(self, capture: object) -> bool:
        return self._capture is capture

    def take(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """A message of `display()` that found no call, or another one, in the way; what is not taken is returned."""
        kind, content = message["header"]["msg_type"], message["content"]
        if kind not in ("display_data", "update_display_data"):
            return message
        display_id = content.get("transient", {}).get("display_id")
        if kind == "update_display_data" and not self._capture.knows(display_id):
            return message  # a display of the user's own
        if self._capture.closed:
            if self._left <= 0 or not self._is_open():
                # ipykernel 6 would have the thread speak for the cell that runs by now.
                return {**message, "parent_header": self._request}
            self._left -= 1
        self._capture.display(content["data"], content.get("metadata"), display_id)
        return None


current_displays: contextvars.ContextVar[CallDisplays | None] = contextvars.ContextVar(
    "agent_kernel_call", default=None
)
"""Of the call whose code this is. Tasks have it from the code that makes them, threads from `start_in_call`."""


def watch_thread(publisher: Any) -> None:
    """Have what this thread publishes taken by the call that it belongs to. A publisher's hooks are for each thread."""
    hooks = getattr(publisher, "_hooks", None)
    if hooks is not None and _take not in hooks:
        publisher.register_hook(_take)


def start_in_call(publisher: Any) -> Callable[[threading.Thread], None]:
    """What stands in for `Thread.start` while a call runs: the new thread belongs to the call, as a task would."""
    start = threading.Thread.start

    def start_in_context(thread: threading.Thread) -> None:
        context, run = contextvars.copy_context(), thread.run

        def watched() -> None:
            watch_thread(publisher)
            run()

        thread.run = lambda: context.run(watched)  # type: ignore[method-assign]
        start(thread)

    return start_in_context


def _take(message: dict[str, Any]) -> dict[str, Any] | None:
    displays = current_displays.get()
    return message if displays is None else displays.take(message)
