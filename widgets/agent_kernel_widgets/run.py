"""`AgentRun`, the anywidget that shows one run in a cell's output."""

import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import anywidget
import traitlets

Command = dict[str, Any]

_STATIC = Path(__file__).parent / "static"


@functools.cache
def built(name: str) -> str:
    path = _STATIC / name
    if not path.is_file():
        raise ImportError(
            f"The front end of Agent Kernel is not built: {path.name} is missing. "
            "In a checkout, run `npm ci` and `npm run build` in the folder `widgets`."
        )
    return path.read_text(encoding="utf-8").strip()


class AgentRun(anywidget.AnyWidget):
    """The cards, answer and decisions of one run.

    With `transport="server"` the page opens a WebSocket to the server extension, and the kernel is not involved. The
    page then gets the front end from that server too, as a cached file: what is sent for each run is a loader, which
    asks for the whole of it by a custom message where the server does not have this version.
    Elsewhere the front end is part of the widget's state, so that it works in any page.

    With `transport="kernel"` the protocol's frames travel as custom messages of this widget: `post_frames` sends
    events, and `on_command` receives commands, of which `resume` is the first.
    """

    conversation_id = traitlets.Unicode().tag(sync=True)
    run_id = traitlets.Unicode().tag(sync=True)
    prompt = traitlets.Unicode().tag(sync=True)
    transport = traitlets.Enum(("server", "kernel"), default_value="server").tag(sync=True)
    unserved = traitlets.Bool(False).tag(sync=True)
    """Whether the runtime is in the kernel for no other reason than that no server with the extension serves it."""

    def __init__(self, *, transport: str = "server", **state: Any) -> None:
        """Raises `ImportError` where the front end is not built."""
        self._esm = built("loader.js" if transport == "server" else "index.js")
        super().__init__(transport=transport, **state)
        if transport == "server":
            self.on_msg(_answer_loader)

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
    if content == {"wants": "front_end"}:
        widget.send({"front_end": built("index.js")})
