"""`Link`: sends this kernel's events to the server extension."""

import threading
from collections.abc import Callable
from typing import Any

from agent_kernel.protocol.first_prompt import Message, RunAnnounced, content_of
from agent_kernel.protocol.kernel_topics import EVENT_TOPIC, EVENT_TYPE

ANNOUNCE_SECONDS = 1.0
ANNOUNCE_TRIES = 15


class Link:
    """Sends events to the server, from any thread: as IOPub messages under a topic that JupyterLab ignores."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel

    def send(self, event: Message) -> None:
        self._kernel.session.send(self._kernel.iopub_socket, EVENT_TYPE, content_of(event), ident=EVENT_TOPIC)

    def announce(self, run: RunAnnounced, acknowledged: threading.Event, on_timeout: Callable[[], None]) -> None:
        """Announce a new run each second until `acknowledged` is set; call `on_timeout` if it never is."""

        def repeat() -> None:
            for _ in range(ANNOUNCE_TRIES):
                self.send(run)
                if acknowledged.wait(ANNOUNCE_SECONDS):
                    return
            on_timeout()

        threading.Thread(target=repeat, name="agent-kernel-announce", daemon=True).start()
