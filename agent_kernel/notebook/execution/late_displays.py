"""Assigns displays to the call whose code makes them, also after its end: by a timer, a thread or a task that lives on.

While the run is open they are shown on the call's card. After that they are published under the request that ran the
call, which is no cell's: JupyterLab lists them in its log. They never appear below the cell that runs by then.
"""

import contextvars
import threading
from collections.abc import Callable, Mapping
from typing import Any

from agent_kernel.notebook.execution.capture import OutputCapture

MOST_LATE = 100
"""How many displays of one call are shown on its card after its end."""


class CallDisplays:
    """The displays of one call, for as long as any of its code runs."""

    def __init__(self, capture: OutputCapture, is_open: Callable[[], bool], request: Mapping[str, Any]) -> None:
        """`request` is the header of the request that runs the call."""
        self.capture = capture
        self._is_open = is_open
        self._request = dict(request)
        self._left = MOST_LATE

    def handle(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """Handle a message of `display()`. Returns the message to publish; `None` if the call shows it."""
        kind, content = message["header"]["msg_type"], message["content"]
        if kind not in ("display_data", "update_display_data"):
            return message
        display_id = content.get("transient", {}).get("display_id")
        if kind == "update_display_data" and not self.capture.knows(display_id):
            return message  # a display that the user's code made
        if self.capture.closed:
            if self._left <= 0 or not self._is_open():
                # With the parent that ipykernel 6 gives a thread, it would appear below the cell that runs by now.
                return {**message, "parent_header": self._request}
            self._left -= 1
        self.capture.display(content["data"], content.get("metadata"), display_id)
        return None


current_displays: contextvars.ContextVar[CallDisplays | None] = contextvars.ContextVar(
    "agent_kernel_call", default=None
)
"""The displays of the current code's call. Tasks inherit it; threads get it from `start_in_call`."""


def watch_thread(publisher: Any) -> None:
    """Have messages that this thread publishes handled by its call. A publisher's hooks are per thread."""
    hooks = getattr(publisher, "_hooks", None)
    if hooks is not None and _handle not in hooks:
        publisher.register_hook(_handle)


def start_in_call(publisher: Any) -> Callable[[threading.Thread], None]:
    """A replacement for `Thread.start` while a call runs: the new thread belongs to the call, as a task would."""
    start = threading.Thread.start

    def start_in_context(thread: threading.Thread) -> None:
        context, run = contextvars.copy_context(), thread.run

        def watched() -> None:
            watch_thread(publisher)
            run()

        thread.run = lambda: context.run(watched)  # type: ignore[method-assign]
        start(thread)

    return start_in_context


def _handle(message: dict[str, Any]) -> dict[str, Any] | None:
    displays = current_displays.get()
    return message if displays is None else displays.handle(message)
