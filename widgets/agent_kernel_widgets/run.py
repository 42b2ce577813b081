"""`AgentRun`, the anywidget that shows one run in a cell's output."""

from collections.abc import Callable, Iterable
from typing import Any

import anywidget
import traitlets
from ipywidgets import Layout  # type: ignore[import-untyped]

from agent_kernel_widgets.opened import built

Command = dict[str, Any]

_layouts: list[Layout] = []


def _shared_layout() -> Layout:
    """One for all runs of a kernel, because a page gets each layout's 1.5 kB. The user may have closed it, as part of
    all widgets."""
    if not _layouts or _layouts[-1].comm is None:
        _layouts[:] = [Layout()]
    return _layouts[-1]


class AgentRun(anywidget.AnyWidget):
    """The cards, answer and decisions of one run.

    With `transport="server"` the page opens a WebSocket to the server extension, and the kernel is not involved. The
    page then gets the front end from that server too, as a cached file: what is sent for each run is a loader, which
    asks for the whole of it by a custom message where the server does not have this version. Elsewhere the front end
    is part of the widget's state, so that it works in any page.

    With `transport="kernel"` the protocol's frames travel as custom messages of this widget: `post_frames` sends
    events, and `on_command` receives commands, of which `resume` is the first.
    """

    conversation_id = traitlets.Unicode().tag(sync=True)
    run_id = traitlets.Unicode().tag(sync=True)
    prompt = traitlets.Unicode().tag(sync=True)
    transport = traitlets.Enum(("server", "kernel"), default_value="server").tag(sync=True)

    def __init__(self, *, transport: str = "server", opened: Any = None, **state: Any) -> None:
        """`opened`: the comm of `opened.open_widget`, with the same state."""
        self._opened = opened
        self._esm = built("loader.js" if transport == "server" else "index.js")
        super().__init__(transport=transport, layout=_shared_layout(), **state)
        if transport == "server":
            self.on_msg(_answer_loader)

    def open(self) -> None:
        """See `ipywidgets.Widget`."""
        if self._opened is not None:
            self.comm = self._opened
        else:
            super().open()

    def post_frames(self, frames: Iterable[str]) -> None:
        """Send events, each as its JSON text, in the order of their `seq`."""
        batch = list(frames)
        if batch:
            self.send({"frames": batch})

    def on_command(self, callback: Callable[[Command], None]) -> None:
        """Call `callback` with each command of a page, as an untrusted dictionary."""

        def receive(_widget: object, content: object, _buffers: object) -> None:
            command = content.get("command") if isinstance(content, dict) else None
            if isinstance(command, dict):
                callback(command)

        self.on_msg(receive)


def _answer_loader(widget: AgentRun, content: object, _buffers: object) -> None:
    if isinstance(content, dict) and content.get("wants") == "front_end":
        widget.send({"front_end": built("index.js")})
